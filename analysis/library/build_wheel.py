"""The build backend of pyproject.toml (PEP 517): a wheel of the two Python modules and of
build/liblapwing.so, which `make` builds. It needs nothing but Python, so that pip downloads
nothing. LAPWING_LIBRARY names another library to take."""

import base64
import hashlib
import os
import re
import sysconfig
import zipfile

_METADATA = """Metadata-Version: 2.1
Name: lapwing
Version: %s
Summary: Predicts how long a distributed training step takes
License: Apache-2.0
Requires-Python: >=3.7
"""
_WHEEL = """Wheel-Version: 1.0
Generator: lapwing
Root-Is-Purelib: false
Tag: %s
"""


def _version():
    with open("Makefile") as f:
        return re.search(r"^VERSION\s*:?=\s*(\S+)", f.read(), re.M).group(1)


def _library():
    path = os.environ.get("LAPWING_LIBRARY", os.path.join("build", "liblapwing.so"))
    if not os.path.exists(path):
        raise SystemExit("%s is not there: run make first, or set LAPWING_LIBRARY" % path)
    return path


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    name = "lapwing-%s-%s.whl" % (version, tag)
    info = "lapwing-%s.dist-info/" % version
    files = {}
    for to, path in (("lapwing.py", "analysis/library/lapwing.py"),
                     ("lapwing_record.py", "traces/lapwing_record.py"),
                     ("liblapwing.so", _library())):
        with open(path, "rb") as f:
            files[to] = f.read()
    files[info + "METADATA"] = (_METADATA % version).encode()
    files[info + "WHEEL"] = (_WHEEL % tag).encode()
    record = "".join("%s,sha256=%s,%d\n" % (to, _digest(data), len(data))
                     for to, data in files.items())
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for to, data in files.items():
            z.writestr(to, data)
    return name
