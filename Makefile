# Lapwing. `make` builds build/lapwing; `make help` lists the targets.

MAKEFLAGS += -r # every rule is here, and looking for others takes most of a second

# --- what you may set -----------------------------------------------------------------------------
ifeq ($(origin CC),default)
CC      := gcc
endif
ifeq ($(origin CXX),default)
CXX     := g++
endif
# Sanitizers: gcc takes twice as long for -O2, and most of those checks is compiling.
CFLAGS  ?= $(if $(filter 1,$(SAN) $(TSAN) $(FUZZ)),-O1 -g1,-O2 -g)
TEST_CFLAGS ?= -O0 # of tests, after CFLAGS: most of the time of make check is compiling them
PREFIX  ?= /usr/local
DESTDIR ?=
PYTHONDIR ?= $(PREFIX)/lib/python3/dist-packages
SAN     ?= 0        # 1: address and undefined sanitizers
TSAN    ?= 0        # 1: thread sanitizer
MPI     ?= 1        # 0: leave the Open MPI plugin out
CUDA    ?= 1        # 0: leave the NCCL plugin out
T       ?=          # make check T=bucket: only test_bucket; T=exec/: the tests below tests/exec
F       ?=          # make check F='refuses*': only tests whose name matches
SECONDS_PER_FUZZ ?= 10 # make fuzz SECONDS_PER_FUZZ=600
V       ?=          # 1: print whole command lines
override SAN := $(strip $(SAN))
override TSAN := $(strip $(TSAN))
override T := $(strip $(T))
say = $(if $(strip $(V)),,@echo "  $(1)" &&)

# --- how it is compiled ---------------------------------------------------------------------------
VERSION := 0.1.0
comma := ,
WARN  := -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes \
         -Wmissing-prototypes -Wvla -Wformat=2
EXACT := -ffp-contract=off
BUILD := build$(if $(filter 1,$(SAN)),-san)$(if $(filter 1,$(TSAN)),-tsan)$(if $(FUZZ),-fuzz)
SANITIZE := $(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined \
                                    -fsanitize=float-cast-overflow -fno-sanitize-recover=all) \
            $(if $(filter 1,$(TSAN)),-fsanitize=thread) \
            $(if $(FUZZ),-fsanitize=fuzzer-no-link$(comma)address$(comma)undefined \
                         -fsanitize=float-cast-overflow -fno-sanitize-recover=all)
CPPFLAGS += -I. -I$(BUILD) -D_GNU_SOURCE -DLW_VERSION='"$(VERSION)"' \
            -DLW_BUILD_FLAGS='"$(strip $(CFLAGS) $(EXACT) $(SANITIZE))"'
# Not of C++: headers of its library convert without a cast.
CONVERT := $(if $(FUZZ),-fsanitize=implicit-conversion)
ALL_CFLAGS   = -std=c11 $(WARN) $(EXACT) -pthread -fPIC $(SANITIZE) $(CONVERT) $(CFLAGS)
ALL_CXXFLAGS = -std=c++17 -Wall -Wextra $(EXACT) -fno-exceptions -fno-rtti -pthread -fPIC \
               $(SANITIZE) $(filter-out -std=%,$(CFLAGS))
LDLIBS = -lprotobuf-c -lsimdjson -ldeflate -lz -lsqlite3 -lxxhash -lstdc++ -lm -ldl -pthread

# --- what it is made of ---------------------------------------------------------------------------
NCCL_SRC := $(sort $(wildcard exec/nccl/*.c))
MPI_SRC  := $(sort $(wildcard exec/mpi/*.c))
RECORD_SRC := $(sort $(wildcard exec/record/*.c))
PLUGIN_HOST := exec/plugin/plugin_host.c
PLUGIN_SRC := $(MPI_SRC) $(NCCL_SRC) $(RECORD_SRC) $(PLUGIN_HOST)
HOST_SRC := $(addprefix shared/base/,err.c large_pages.c nearest.c shown_text.c) \
            shared/numbers/dtype.c shared/plan/op.c shared/workload/product.c \
            $(PLUGIN_HOST) exec/backend/contract.c exec/cpu/clock_wait.c # in each plugin
LIBRARY_EXAMPLE := analysis/library/example.c
ALL_C := $(sort $(shell find shared sim exec traces analysis -name '*.c'))
SRC   := $(filter-out $(PLUGIN_SRC) $(LIBRARY_EXAMPLE),$(ALL_C))
CXXSRC := $(sort $(shell find shared -name '*.cc'))
EMBED := $(sort $(wildcard traces/clusters/*.json traces/frameworks/*.json)) \
         $(wildcard analysis/store/schema.sql)
RESULTS := $(sort $(wildcard docs/results/evidence/*.csv))
PROTO := $(sort $(wildcard traces/*/*.proto))
# Fuzz programs read files: they need no engine, no executor and no command.
LIBRARY_SRC := $(if $(FUZZ),$(filter shared/% traces/%,$(SRC)),$(SRC))
OBJ   := $(LIBRARY_SRC:%.c=$(BUILD)/%.o) $(CXXSRC:%.cc=$(BUILD)/%.o) $(BUILD)/embedded.o \
         $(BUILD)/known_runs.o $(PROTO:%.proto=$(BUILD)/%.pb-c.o)
TESTS := $(sort $(shell find tests -name 'test_*.c'))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
TEST_HELP := $(filter-out $(TESTS),$(wildcard tests/lib/*.c tests/lib/*/*.c))
TEST_BIN := $(TESTS:tests/%.c=$(BUILD)/tests/%)

# With T: the tests it names, and what they need. Without: all.
ifeq ($(T),)
CHECKED_SRC := $(TESTS)
else
CHECKED_SRC := $(filter $(if $(findstring /,$(T)),tests/$(T)%,%/test_$(T).c),$(TESTS))
$(if $(CHECKED_SRC),,$(error no test is named '$(T)'))
endif
# Not under the thread sanitizer: Open MPI is not built for it, processes of one run share memory
# at an address that it keeps for itself, and a calibration measures times.
ifeq ($(TSAN),1)
NOT_UNDER_TSAN := agreement calibrate cmd_exec gpu_check interfaces killed mpi stop
LEFT_OUT := $(filter $(addprefix %/test_,$(NOT_UNDER_TSAN)),$(CHECKED_SRC:.c=))
endif
# Not under the address sanitizer, unless T names them or LAPWING_MANY is set: they compare the
# figures of thousands of commands whose code other tests run there.
ifeq ($(SAN)$(T)$(LAPWING_MANY),1)
NOT_UNDER_SAN := alike convert evidence exit_status guides peaks same_memory tune two_roads \
    validate_commands validate_torch_runs
LEFT_OUT := $(filter $(addprefix %/test_,$(NOT_UNDER_SAN)),$(CHECKED_SRC:.c=))
endif
CHECKED_SRC := $(filter-out $(LEFT_OUT:%=%.c),$(CHECKED_SRC))
CHECKED := $(CHECKED_SRC:tests/%.c=$(BUILD)/tests/%)
# Headers that these files include from tests/, and the X.c of each X.h.
included_by = $(shell sed -n 's/^.include "\(tests\/.*\.h\)"/\1/p' $(1) /dev/null)
help_of = $(sort $(foreach h,$(call included_by,$(1)),$(h) $(wildcard $(h:.h=.c))) $(1))
HELP_OF_T = $(filter $(TEST_HELP),$(call help_of,$(call help_of,$(call help_of,$(CHECKED_SRC)))))
runs_program = $(shell grep -lE 'lib/commands/command_fixture|getenv\("LAPWING"\)' $(1) /dev/null)
DEPS_DEB := gcc g++ make pkg-config libc6-dev libsimdjson-dev libdeflate-dev zlib1g-dev \
            libsqlite3-dev libprotobuf-c-dev protobuf-c-compiler libcmocka-dev libxxhash-dev \
            gnuplot-nox libopenblas0
ifneq ($(strip $(MPI)),0)
DEPS_DEB += libopenmpi-dev openmpi-bin
endif

.PHONY: all deps check stress torture test demo bench validate-here evidence \
        evidence-pages install format check-layers check-headers fuzz run-fuzz help \
        golden-update tidy \
        format-check clean
all: $(BUILD)/lapwing $(BUILD)/liblapwing.so plugins

# --- rules ----------------------------------------------------------------------------------------
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC    $<) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%.o: %.cc Makefile
	@mkdir -p $(@D)
	$(call say,CXX   $<) $(CXX) $(CPPFLAGS) $(ALL_CXXFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/lapwing: $(BUILD)/lapwing.o $(BUILD)/liblapwing.a
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -rdynamic $< $(BUILD)/liblapwing.a $(LDLIBS) -o $@

$(BUILD)/liblapwing.a: $(OBJ)
	@rm -f $@
	$(call say,AR    $@) ar rcs $@ $^

# The library shows what analysis/library/lapwing.h declares and nothing else.
$(BUILD)/liblapwing.so: $(BUILD)/analysis/library/library.o $(BUILD)/liblapwing.a \
                        analysis/library/lapwing.map
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -shared -Wl,-soname,liblapwing.so.0 \
	    -Wl,--version-script=analysis/library/lapwing.map -Wl,--no-undefined \
	    $(BUILD)/analysis/library/library.o $(BUILD)/liblapwing.a $(LDLIBS) -o $@
	@ln -sf liblapwing.so $(BUILD)/liblapwing.so.0

$(BUILD)/library_example: $(LIBRARY_EXAMPLE) analysis/library/lapwing.h $(BUILD)/liblapwing.so
	$(call say,LINK  $@) $(CC) $(WARN) $(SANITIZE) -Ianalysis/library $< $(BUILD)/liblapwing.so \
	    -Wl,-rpath,'$$ORIGIN' -o $@

$(BUILD)/embedded.c: $(EMBED) Makefile
	@mkdir -p $(@D)
	@{ echo '#include "shared/io/embedded.h"'; n=0; \
	   for f in $(EMBED); do n=$$((n+1)); echo "static const unsigned char f$$n[] = {"; \
	     od -An -v -tu1 $$f | sed 's/[0-9][0-9]*/&,/g'; \
	     head -c 64 /dev/zero | od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g'; echo '};'; done; \
	   echo 'const struct lw_embedded lw_embedded_files[] = {'; n=0; \
	   for f in $(EMBED); do n=$$((n+1)); echo "{\"$$f\", f$$n, sizeof f$$n - 64},"; done; \
	   echo '{0, 0, 0}};'; } > $@

$(BUILD)/known_runs.c: analysis/alike/known_runs.awk $(RESULTS) Makefile
	@mkdir -p $(@D)
	@LC_ALL=C awk -f $< $(RESULTS) /dev/null > $@.part && mv $@.part $@

$(BUILD)/embedded.o $(BUILD)/known_runs.o: $(BUILD)/%.o: $(BUILD)/%.c
	$(call say,CC    $<) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Messages of protobuf: a reader and writer made from the fields that a .proto lists.
$(BUILD)/%.pb-c.c $(BUILD)/%.pb-c.h &: %.proto Makefile
	@mkdir -p $(@D)
	$(call say,PROTO $<) protoc-c -I. --c_out=$(BUILD) $<

$(BUILD)/%.pb-c.o: $(BUILD)/%.pb-c.c
	$(call say,CC    $<) $(CC) $(CPPFLAGS) -std=gnu11 -fPIC $(SANITIZE) $(CFLAGS) -c $< -o $@

$(patsubst %.c,$(BUILD)/%.o,$(wildcard traces/chakra/*.c traces/export/*.c)): \
    $(BUILD)/traces/chakra/et.pb-c.h

# What tests share is taken from an archive, so that a test links only what it uses.
$(BUILD)/tests/libhelp.a: $(TEST_HELP:%.c=$(BUILD)/%.o)
	@rm -f $@
	@ar rcs $@ $^

# Hundreds of programs: each is linked to one library of all objects, not to what it uses of an
# archive, and is not linked again when the library changes. lld takes half the time of the linker
# that gcc asks for.
FAST_LINK := $(if $(shell command -v ld.lld),-fuse-ld=lld)
TEST_LIB := $(BUILD)/tests/liball.so
# Commands are tested as programs, and need the table of commands.
COMMAND_OBJ := $(addprefix $(BUILD)/shared/,cmd_help.o cli/completion.o)
$(TEST_LIB): $(filter-out $(COMMAND_OBJ),$(OBJ))
	@mkdir -p $(@D)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) $(FAST_LINK) -shared -Wl,-Bsymbolic-functions \
	    -Wl,-soname,liball.so $^ $(LDLIBS) -o $@

# From the program's folder to that of the library.
to_tests = $(subst $() ,,$(foreach d,$(subst /, ,$(patsubst $(BUILD)/tests/%,%,$(@D))),/..))
$(BUILD)/tests/%.o: ALL_CFLAGS += $(TEST_CFLAGS)
.SECONDARY: $(TEST_BIN:%=%.o)
$(BUILD)/tests/%: $(BUILD)/tests/%.o \
                  $(if $(T),$(HELP_OF_T:%.c=$(BUILD)/%.o),$(BUILD)/tests/libhelp.a) \
                  | $(TEST_LIB)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) $(FAST_LINK) $^ $(TEST_LIB) -lcmocka $(LDLIBS) \
	    -Wl,-rpath,'$$ORIGIN$(to_tests)' -o $@

# --- the NCCL plugin: built where nvcc, cuda.h, nccl.h and cublas_v2.h are found ------------------
NVCC := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) \
                    $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_AT := $(or $(CUDA_HOME),$(patsubst %/bin/nvcc,%,$(NVCC)))
cuda_header = $(firstword $(wildcard $(CUDA_AT)/include/$(1) /usr/include/$(1)))
CUDA_LACKS := $(strip $(if $(NVCC),,nvcc) \
                $(foreach h,cuda.h nccl.h cublas_v2.h,$(if $(call cuda_header,$(h)),,$(h))))
# header, macro, oldest: what the header says, where that is older
too_old = $(shell awk '$$2 == "$(2)" && $$3 + 0 && $$3 + 0 < $(3) { \
              print $$2, $$3 " (oldest: $(3))" }' $(call cuda_header,$(1)))
CUDA_OLD = $(strip $(call too_old,cuda.h,CUDA_VERSION,11040) \
             $(call too_old,nccl.h,NCCL_VERSION_CODE,21801))
CUDA_MISS := $(if $(CUDA_LACKS),not found: $(CUDA_LACKS),$(CUDA_OLD))
CUDA_WHY := $(if $(filter 0,$(strip $(CUDA))),CUDA=0,$(CUDA_MISS))
NCCL_OBJ := $(patsubst %.c,$(BUILD)/plugin/%.o,$(NCCL_SRC) $(HOST_SRC)) \
            $(BUILD)/plugin/kernels.o
CUDA_INC = -isystem $(CUDA_AT)/include
CUDA_LIB = -L$(CUDA_AT)/lib64 -L$(CUDA_AT)/lib64/stubs -lcuda -lnccl -lcublas
FAKE_DIR := $(BUILD)/fake_gpu
FAKE_LIBS := libcuda libnccl libcublas libnvidia-ml old/libnccl
FAKE_GPU := $(if $(CUDA_WHY),,$(FAKE_LIBS:%=$(FAKE_DIR)/%.so))

# --- the Open MPI plugin: built where pkg-config knows ompi-c -------------------------------------
HAS_MPI := $(shell pkg-config --exists ompi-c 2>/dev/null && echo 1)
MPI_WHY := $(if $(filter 0,$(strip $(MPI))),MPI=0,$(if $(HAS_MPI),,not found: ompi-c (pkg-config)))
MPI_INC := $(if $(MPI_WHY),,$(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c)))
MPI_LIB := $(if $(MPI_WHY),,$(shell pkg-config --libs ompi-c))
MPI_OBJ := $(patsubst %.c,$(BUILD)/openmpi/%.o,$(MPI_SRC) \
           $(addprefix exec/cpu/,boot_id.c cpu_world.c cpu_stream.c cpu_comm.c gemm.c gradients.c \
           sparse_rows.c thread_group.c thread_collective_steps.c) \
           $(addprefix exec/backend/,element.c optimizer.c) shared/groups/double_tree.c $(HOST_SRC))
# What a plugin lacks is seen when it is linked.
PLUGIN_LINK := $(if $(SANITIZER),,-Wl,-z,defs)
PLUGINS := $(if $(CUDA_WHY),,$(BUILD)/lapwing-nccl.so) $(if $(MPI_WHY),,$(BUILD)/lapwing-openmpi.so)
RECORDERS := $(if $(CUDA_WHY),,$(BUILD)/lapwing-record.so) \
             $(if $(MPI_WHY),,$(BUILD)/lapwing-record-mpi.so)

.PHONY: plugins gpu-check gpu-pack
plugins: $(PLUGINS) $(RECORDERS)
	$(if $(CUDA_WHY),@echo "  LEFT OUT lapwing-nccl.so and lapwing-record.so ($(CUDA_WHY))")
	$(if $(MPI_WHY),@echo "  LEFT OUT lapwing-openmpi.so and lapwing-record-mpi.so ($(MPI_WHY))")

$(BUILD)/openmpi/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC    $<) $(CC) $(CPPFLAGS) $(MPI_INC) $(ALL_CFLAGS) -fvisibility=hidden -MMD -MP \
	    -c $< -o $@

$(BUILD)/lapwing-openmpi.so: $(MPI_OBJ)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -shared -Wl,-Bsymbolic $(PLUGIN_LINK) $^ $(MPI_LIB) \
	    -lm -ldl -o $@

# Recorders are preloaded before a program; NCCL and CUDA are found at run time, MPI is linked.
RECORD_OBJ := $(patsubst %.c,$(BUILD)/record/%.o,$(RECORD_SRC))
$(BUILD)/record/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC    $<) $(CC) $(CPPFLAGS) $(CUDA_INC) $(MPI_INC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/lapwing-record.so: $(addprefix $(BUILD)/record/exec/record/record_,file.o nccl.o cuda.o)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -shared $^ -ldl -o $@

$(BUILD)/lapwing-record-mpi.so: $(addprefix $(BUILD)/record/exec/record/record_,file.o mpi.o)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -shared $(PLUGIN_LINK) $^ $(MPI_LIB) -o $@

$(BUILD)/plugin/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC    $<) $(CC) $(CPPFLAGS) $(CUDA_INC) $(ALL_CFLAGS) -fvisibility=hidden -MMD -MP \
	    -c $< -o $@

# One binary per architecture that this nvcc knows, and PTX of the last for devices that come later.
# CUDA 11.4 is the oldest toolkit that compiles this (sm_60 to sm_86; graphs with events outside of
# them), CUDA 13 begins at sm_75.
CUDA_LISTED = $(shell $(NVCC) --list-gpu-arch 2>/dev/null || echo compute_70 compute_80)
CUDA_KNOWN = $(CUDA_LISTED:compute_%=%)
CUDA_ARCHS ?= $(filter 70 75 80 86 89 90 100 103 120,$(CUDA_KNOWN))
gencode = -gencode arch=compute_$(1),code=sm_$(1)
# -fmad=false: a multiplication and an addition round as they do on the host.
KERNEL_H := exec/nccl/kernels.h exec/nccl/rows_kernel.h exec/backend/scalar.h
NVCC_FLAGS = -fatbin -O3 -fmad=false -I.
$(BUILD)/plugin/kernels.fatbin: exec/nccl/kernels.cu $(KERNEL_H) Makefile
	@mkdir -p $(@D)
	$(call say,NVCC  $<) $(NVCC) $(NVCC_FLAGS) $(foreach a,$(CUDA_ARCHS),$(call gencode,$a)) \
	    -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
	    $< -o $@

# The kernels for each architecture alone; clang compiles those that this nvcc does not know.
CUDA_WANTED := 60 70 75 80 90 100 120
.PHONY: check-cuda
check-cuda:
	$(if $(CUDA_WHY),@echo "SKIP check-cuda: $(CUDA_WHY)"; \
	    echo "0 passed$(comma) 0 failed$(comma) 1 skipped", \
	@tests/check_cuda.sh $(NVCC) "$(CUDA_KNOWN)" $(CUDA_WANTED) -- $(NVCC_FLAGS) exec/nccl/kernels.cu)

$(BUILD)/plugin/kernels.o: $(BUILD)/plugin/kernels.fatbin
	@printf '%s\n' '.section .rodata' '.balign 64' '.globl lw_kernels_fatbin' \
	    '.hidden lw_kernels_fatbin' 'lw_kernels_fatbin:' '.incbin "$<"' \
	    '.section .note.GNU-stack,"",%progbits' \
	    | $(CC) -c -x assembler - -o $@

$(BUILD)/lapwing-nccl.so: $(NCCL_OBJ)
	$(call say,LINK  $@) $(CC) $(ALL_CFLAGS) -shared $(PLUGIN_LINK) $^ $(CUDA_LIB) -lm -o $@

# Stand-ins for the driver, NCCL and cuBLAS on host memory: tests load the plugin against them.
soname_read = $(shell readelf -d $(CUDA_AT)/lib64/lib$(1).so 2>/dev/null | \
                      sed -n 's/.*soname: \[\(.*\)\]/\1/p')
soname = $(or $(call soname_read,$(1)),lib$(1).so)
FAKE_H := tests/fake_gpu/fake_env.h tests/fake_gpu/fake_cuda.h
$(FAKE_DIR)/lib%.so: tests/fake_gpu/fake_%.c $(FAKE_H) $(KERNEL_H) Makefile
	@mkdir -p $(@D)
	$(call say,FAKE  $<) $(CC) $(CPPFLAGS) $(CUDA_INC) $(ALL_CFLAGS) $(if $(SANITIZER),,-O3) \
	    -Wno-missing-prototypes -shared $(filter %.c,$^) \
	    $(if $(filter cuda,$*),,$(FAKE_DIR)/libcuda.so) -lm \
	    -Wl,-soname,$(fake_name) -o $@
	@ln -sf lib$*.so $(FAKE_DIR)/$(fake_name)
fake_name = $(or $(filter libcuda.so.1 libnvidia-ml.so.1,lib$*.so.1),$(call soname,$*))
$(FAKE_DIR)/libcuda.so: tests/fake_gpu/fake_cuda_graph.c
$(FAKE_DIR)/libnccl.so $(FAKE_DIR)/libcublas.so $(FAKE_DIR)/libnvidia-ml.so: $(FAKE_DIR)/libcuda.so
# A set: tests that load one of them may load the others.
$(FAKE_DIR)/libcublas.so: | $(FAKE_DIR)/libnvidia-ml.so $(FAKE_DIR)/old/libnccl.so

# NCCL before it could register buffers.
$(FAKE_DIR)/old/libnccl.so: tests/fake_gpu/fake_nccl.c $(FAKE_H) $(FAKE_DIR)/libcuda.so
	@mkdir -p $(@D)
	$(call say,FAKE  $<$(comma) old) $(CC) $(CPPFLAGS) $(CUDA_INC) $(ALL_CFLAGS) -shared \
	    -Wno-missing-prototypes -DFAKE_NCCL_OLD $< $(FAKE_DIR)/libcuda.so \
	    -Wl,-soname,$(call soname,nccl) -o $@
	@ln -sf libnccl.so $(@D)/$(call soname,nccl)

# --- checks ---------------------------------------------------------------------------------------
# What is preloaded comes after the runtime of a sanitizer.
SANITIZER := $(if $(filter 1,$(SAN)),asan)$(if $(filter 1,$(TSAN)),tsan)
ASAN_LIB = $(if $(SANITIZER),$(shell $(CC) -print-file-name=lib$(SANITIZER).so))
# A test that loads a plugin names its folder; with T only such a test builds them.
loads_plugin = $(shell grep -lE 'LAPWING_(MPI|FAKE_GPU)' $(1) /dev/null)
# One that runs the library names its file.
loads_library = $(shell grep -l liblapwing $(1) /dev/null)

LOADED := $(PLUGINS) $(RECORDERS) $(FAKE_GPU)
NEEDED_BY_T = $(if $(call runs_program,$(CHECKED_SRC) $(HELP_OF_T)),$(BUILD)/lapwing) \
              $(if $(call loads_library,$(CHECKED_SRC)),$(BUILD)/liblapwing.so) \
              $(if $(call loads_plugin,$(CHECKED_SRC) $(HELP_OF_T)),$(LOADED))
check: $(CHECKED) $(if $(filter-out library,$(T)),,$(BUILD)/library_example) \
       $(if $(T),$(NEEDED_BY_T),$(BUILD)/lapwing $(LOADED) check-layers check-headers)
	$(if $(LEFT_OUT),@echo "SKIP under this sanitizer: $(notdir $(LEFT_OUT))")
	@LAPWING=$(BUILD)/lapwing LAPWING_FAKE_GPU='$(if $(CUDA_WHY),,$(abspath $(FAKE_DIR)))' \
	    LAPWING_MPI='$(if $(MPI_WHY),,$(abspath $(BUILD)))' LAPWING_ASAN='$(ASAN_LIB)' \
	    F='$(strip $(F))' tests/run.sh $(CHECKED)

# Every way in which a run can stop, LOOPS times each.
LOOPS ?= 50
TEST_STOP := $(filter %/test_stop %/test_killed,$(TEST_BIN))
stress: $(BUILD)/lapwing plugins $(TEST_STOP)
	@LAPWING=$(BUILD)/lapwing LAPWING_MPI='$(if $(MPI_WHY),,$(abspath $(BUILD)))' \
	 LAPWING_STRESS=$(LOOPS) \
	    tests/run.sh $(TEST_STOP)

# Kills, damaged files and hostile connections for MINUTES; crash inputs stay as ./torture-crash-*.
MINUTES ?= 60
TORTURE := $(BUILD)/tests/torture/torture
torture: all $(TORTURE)
	@LAPWING=$(BUILD)/lapwing LAPWING_SAN='$(wildcard build-san/lapwing)' \
	    LAPWING_MPI='$(if $(MPI_WHY),,$(abspath $(BUILD)))' $(TORTURE) $$(($(MINUTES) * 60))

check-layers:
	@tests/layers.sh

# Each header compiles alone: looked at again when it or what it includes has changed.
HEADERS := $(filter-out $(if $(CUDA_WHY),exec/nccl/nccl_%), \
             $(sort $(shell find shared sim exec traces analysis -name '*.h')))
$(BUILD)/headers/%.alone: %.h Makefile
	@mkdir -p $(@D)
	@echo '#include "$<"' | $(CC) $(CPPFLAGS) $(CUDA_INC) -std=c11 $(WARN) -Werror -MMD -MP \
	    -MF $@.d -MT $@ -fsyntax-only -x c - || \
	    { echo "check-headers: $< does not compile alone"; exit 1; }
	@touch $@

check-headers: $(HEADERS:%.h=$(BUILD)/headers/%.alone)
	@echo "check-headers: ok"

format-check:
	@tests/format.sh

# The decisions that are committed, written anew: look at the difference before you commit it.
GOLDEN_BIN := $(filter $(BUILD)/tests/golden/%,$(TEST_BIN))
golden-update: $(BUILD)/lapwing $(GOLDEN_BIN)
	@for t in $(GOLDEN_BIN); do LAPWING_GOLDEN=update LAPWING=$(BUILD)/lapwing $$t || exit 1; done
	@git --no-pager diff --stat -- tests/golden 2>/dev/null || true

# The checks of .clang-tidy; TIDY names other files than all.
TIDY ?= $(filter-out $(NCCL_SRC) shared/base/err.c,$(SRC) $(MPI_SRC)) lapwing.c
TIDY_TEXTS := -DLW_VERSION=__FILE__ -DLW_BUILD_FLAGS=__FILE__
tidy:
	@command -v clang-tidy >/dev/null || \
	    { echo "tidy: clang-tidy is not installed (apt-get install clang-tidy)"; exit 1; }
	@printf '%s\n' $(TIDY) | xargs -P "$$(nproc 2>/dev/null || echo 2)" -n 4 \
	    sh -c 'clang-tidy --quiet "$$@" -- -I. -D_GNU_SOURCE $(TIDY_TEXTS) $(MPI_INC) \
	        -include tests/tidy.h -std=c11 2>/dev/null' tidy && echo "tidy: ok"

# Each tests/fuzz/fuzz_X.c runs SECONDS_PER_FUZZ seconds on its corpus tests/fuzz/corpus/X.
fuzz:
	$(MAKE) FUZZ=1 CC=clang CXX=clang++ run-fuzz

run-fuzz: $(FUZZ_BIN)
	@tests/fuzz/run.sh $(strip $(SECONDS_PER_FUZZ)) $(FUZZ_BIN)

$(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/liblapwing.a
	@mkdir -p $(@D)
	$(call say,FUZZ  $<) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fsanitize=fuzzer $< $(BUILD)/liblapwing.a \
	    $(LDLIBS) -o $@

# --- the two commands of the README ---------------------------------------------------------------
test: deps
	tests/all.sh

demo: deps
	$(MAKE) all
	tests/demo.sh

deps:
	@tests/deps.sh $(DEPS_DEB)

# For the owner of a GPU: results, with their command lines, into docs/results.
gpu-check: all
	@LAPWING=$(BUILD)/lapwing tests/gpu_check.sh

gpu-pack: all
	@LAPWING=$(BUILD)/lapwing tests/gpu_pack.sh

.PHONY: bench-record
bench: $(BUILD)/lapwing bench-record
	$(BUILD)/lapwing bench

# What a call of the libraries takes of the calling thread, alone and recorded.
RECORDED := $(BUILD)/tests/exec/record/test_call_recorder
record_costs = @for r in "" $(1); do \
    LD_LIBRARY_PATH=$(FAKE_DIR) LD_PRELOAD=$${r:+$(BUILD)/$$r:}$(2) RANK=0 \
    LAPWING_RECORD=$(BUILD)/bench_calls $(RECORDED) --$(3) 50000 "$${r:-alone}"; done
bench-record: $(RECORDED) $(RECORDERS) $(FAKE_GPU)
	$(if $(CUDA_WHY),,$(call record_costs,lapwing-record.so,libcuda.so.1:libnccl.so.2,calls))
	$(if $(MPI_WHY),,$(call record_costs,lapwing-record-mpi.so,libmpi.so.40,mpi-calls))

PUBLISHED := env PYTHONDONTWRITEBYTECODE=1 python3 tests/evidence
EVIDENCE := docs/results/evidence

# Every published training run in ../shared, predicted: half an hour on two idle cores.
evidence: $(BUILD)/lapwing
	@nice $(PUBLISHED)/evidence.py predict $(BUILD)/lapwing ../shared out/evidence $(TABLES) && \
	 rm -rf out/evidence.before && cp -r $(EVIDENCE) out/evidence.before && \
	 $(PUBLISHED)/evidence.py collect out/evidence ../shared $(EVIDENCE) && \
	 $(PUBLISHED)/moved.py out/evidence.before $(EVIDENCE) && \
	 $(PUBLISHED)/kernel_tables.py write $(BUILD)/lapwing ../shared . && \
	 $(PUBLISHED)/pages.py write . || [ $$? = 4 ] # no tables: said aloud

evidence-pages:
	@$(PUBLISHED)/pages.py write .

# Predicted against executed on this machine: a minute to calibrate and three for each workload.
validate-here: $(BUILD)/lapwing
	@mkdir -p out && rm -f out/validate.db*
	$(BUILD)/lapwing validate --here --db out/validate.db

# Only the lines that differ from the last commit: tables that are laid out by hand stay.
format:
	@command -v git-clang-format >/dev/null || \
	    { echo "format: git-clang-format is not installed (apt-get install clang-format)"; exit 1; }
	git clang-format --force --extensions c,h,cc,cu HEAD || [ $$? = 1 ]

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/lapwing
	install -m 755 $(BUILD)/lapwing $(DESTDIR)$(PREFIX)/bin/lapwing
	$(if $(PLUGINS),install -m 755 $(PLUGINS) $(RECORDERS) $(DESTDIR)$(PREFIX)/lib/lapwing)
	install -d $(DESTDIR)$(PYTHONDIR) $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/liblapwing.so $(DESTDIR)$(PREFIX)/lib/liblapwing.so.$(VERSION)
	ln -sf liblapwing.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/liblapwing.so.0
	ln -sf liblapwing.so.0 $(DESTDIR)$(PREFIX)/lib/liblapwing.so
	install -m 644 analysis/library/lapwing.h $(DESTDIR)$(PREFIX)/include/lapwing.h
	install -m 644 analysis/library/lapwing.py $(DESTDIR)$(PYTHONDIR)/lapwing.py
	@printf '%s\n' 'prefix=$(PREFIX)' 'Name: lapwing' 'Version: $(VERSION)' \
	    'Description: predicts schedules of distributed training' 'Cflags: -I$${prefix}/include' \
	    'Libs: -L$${prefix}/lib -llapwing' > $(DESTDIR)$(PREFIX)/lib/pkgconfig/lapwing.pc
	install -m 644 traces/lapwing_record.py $(DESTDIR)$(PYTHONDIR)/lapwing_record.py
	@tests/install_docs.sh $(BUILD)/lapwing "$(DESTDIR)$(PREFIX)/share"

# A Debian package of this build: build/lapwing_VERSION_ARCH.deb.
.PHONY: deb
deb: all
	@rm -rf $(BUILD)/deb
	@$(MAKE) --no-print-directory install PREFIX=/usr DESTDIR=$(abspath $(BUILD)/deb) >/dev/null
	@tests/make_deb.sh $(VERSION) $(abspath $(BUILD)/deb) \
	    $(BUILD)/lapwing_$(VERSION)_$$(dpkg --print-architecture).deb

clean:
	rm -rf build build-san build-tsan build-fuzz out

help:
	@echo "make            build build/lapwing"
	@echo "make demo       install what is missing, build, and run the main job on a recorded trace"
	@echo "make test       install what is missing, then every check"
	@echo "make check      the tests alone; T=bucket: one file, T=exec/: a folder, F='r*': by name"
	@echo "make golden-update   write the committed decisions (tests/golden) anew"
	@echo "make SAN=1 check, TSAN=1 check    under sanitizers"
	@echo "make stress     every failure of a run, LOOPS=50 times each"
	@echo "make bench      speed tables      make fuzz     fuzz every importer"
	@echo "make torture MINUTES=60   kills, damaged files, hostile connections"
	@echo "make evidence    predict the published runs in ../shared (half an hour; TABLES='a b')"
	@echo "make validate-here   caps, policies, ZeRO, schedules: predicted against executed here"
	@echo "make gpu-pack   gpu-check as one file, for a machine without compilers and network"
	@echo "make gpu-check  on a machine with a GPU: check, calibrate, run, compare; into docs/results"
	@echo "make install    PREFIX=$(PREFIX) DESTDIR=    make deb: a Debian package"
	@echo "make format, tidy, check-layers, check-headers, format-check, deps, clean"

-include $(patsubst %.o,%.d,$(OBJ) $(NCCL_OBJ) $(RECORD_OBJ) $(MPI_OBJ) $(BUILD)/lapwing.o) \
         $(TEST_HELP:%.c=$(BUILD)/%.d) $(TEST_BIN:%=%.d) \
         $(HEADERS:%.h=$(BUILD)/headers/%.alone.d)
