"""The programs of a folder, each in a process of its own that has their modules already.

    python_server.py FOLDER MODULE...

A line of standard input is a program of the folder and its arguments, in which $NAME is of the
environment. It runs in a fork of this process, which imported the modules once. The answer is a
line "STATUS BYTES" and so many bytes: what the program wrote, standard output and after it standard
error.
"""
import importlib
import os
import runpy
import sys
import tempfile


def main(folder, *modules):
    sys.dont_write_bytecode = True
    sys.path[0] = folder
    for name in modules:
        importlib.import_module(name)
    while words := sys.stdin.buffer.readline().decode():
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            process = os.fork()
            if process == 0:
                os.dup2(out.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                sys.argv = os.path.expandvars(os.path.join(folder, words)).split()
                runpy.run_path(sys.argv[0], run_name="__main__")
                sys.exit()
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            text = b""
            for f in (out, errors):
                f.seek(0)
                text += f.read()
            sys.stdout.buffer.write(b"%d %d\n" % (status, len(text)) + text)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
