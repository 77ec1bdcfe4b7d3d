# Makefile -- from a fresh clone to the paper.
#
#     setup -> build -> paper (every notebook of a profile, then the pages)
#
# `make` alone prints the targets. A program is made of every .c file in the
# folders of src_c that are named for it below, so a new model, or any other
# new file, needs no change here.

BUILD   ?= build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
PROFILE ?= quick
comma   := ,

# The Python that runs connlab: the active conda environment if it is ours,
# else .venv (tools/setup.sh makes it).
CONDA_OURS := $(filter connlab,$(CONDA_DEFAULT_ENV))
CORES := $(shell nproc 2>/dev/null || echo 1)
SELF = $(MAKE) --no-print-directory
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(CORES))
# A misspelt variable would change nothing and go unnoticed.
KNOWN := PROFILE RUN NB P R RENDERER HOSTS SERVER T TESTERS MARKED FUZZ_S \
	BUILD SAN CC AR OPT WARN CFLAGS CPPFLAGS LDFLAGS URING WINSOCK_CC CI PY PYTHON
UNKNOWN := $(filter-out $(KNOWN) CONNLAB_% __%,$(foreach name,$(.VARIABLES),\
	$(if $(filter command,$(origin $(name))),$(name))))
$(if $(UNKNOWN),$(error $(UNKNOWN): unknown; allowed: $(KNOWN); others go\
	into the environment: $(firstword $(UNKNOWN))=... make))
PY ?= $(if $(CONDA_OURS),$(CONDA_PREFIX)/bin/python,.venv/bin/python)

# ---- compiler and flags ----------------------------------------------------
ifeq ($(origin CC),default)
CC := $(notdir $(firstword $(foreach c,gcc cc clang,$(shell command -v $c))))
endif
URING_PROBE = printf '\043include <liburing.h>\nint main(void)\
	{ struct io_uring r; io_uring_prep_recv_multishot(0, 0, 0, 0, 0);\
	return io_uring_register_buf_ring(&r, 0, 0); }\n'
URING := $(if $(CC),$(shell $(URING_PROBE) | $(CC) $(CPPFLAGS) $(LDFLAGS) \
	-x c - -luring -o /dev/null 2>/dev/null && echo yes))

WARN   = -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes
STRICT := $(filter-out 0 false no,$(CI))
WARN  += $(if $(STRICT),-Werror)
OPT   ?= $(if $(SAN),-O1,-O2)
CFLAGS ?= $(OPT) -g
SANFLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
ALL_CPPFLAGS = -D_GNU_SOURCE $(if $(URING),-DHAVE_URING) -Isrc_c \
	$(CPPFLAGS) -UNDEBUG
# Ubuntu's gcc touches each page of a frame that is entered, used or not: a thread
# with 128 KiB of buffers on its stack then takes them from the first call on.
ALL_CFLAGS = -std=c11 -fno-stack-clash-protection $(CFLAGS) $(WARN) -pthread \
	$(SANFLAGS)
LIBS = $(if $(URING),-luring) -lm
# The same programs wherever the clone lies: a trial's key holds their hashes.
HERE = -ffile-prefix-map='$(CURDIR)'=.

# ---- what is compiled ------------------------------------------------------
sources_in = $(sort $(patsubst src_c/%,%,$(wildcard $(1:%=src_c/%/*.c))))
objects = $(1:%.c=$(BUILD)/obj/%.o)

server_srcs := $(call sources_in,server common blocking reactor uring coroutine \
	http redis models workloads)
client_srcs := $(call sources_in,client common)
floor_srcs := $(call sources_in,floor common)
external_srcs := $(call sources_in,external common)
# A C test is linked with the program whose part it tests.
CLIENT_TESTS := test_hist test_pace test_user test_watch
c_tests := $(patsubst src_c/%.c,$(BUILD)/%,$(wildcard src_c/tests/*.c))
client_tests := $(filter $(CLIENT_TESTS:%=$(BUILD)/tests/%),$(c_tests))
server_tests := $(filter-out $(client_tests),$(c_tests))
lessons := $(patsubst src_c/%.c,$(BUILD)/%,$(filter-out \
	$(if $(URING),,%/uring.c),$(wildcard src_c/lessons/*.c)))
programs := $(if $(server_srcs),$(BUILD)/server)\
	$(if $(client_srcs),$(BUILD)/client) $(if $(floor_srcs),$(BUILD)/floor) \
	$(if $(external_srcs),$(BUILD)/external)
-include src_c/fuzz/fuzz.mk
-include src_c/winsock/winsock.mk

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help setup setup-test build programs paper notebook evaluate render archive contribute \
	doctor judge runtimes bench lab lab-down test test-long c-tests test-py rewritten \
	fuzz lint format format-c lock clean FORCE

help:  ## print this list
	@echo 'connlab: measure connection handling models, print the paper.'
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' Makefile $(wildcard src_c/*/*.mk) | \
		awk -F'|' '{ printf "  make %-11s%s\n", $$1, $$2 }'
	@echo 'PROFILE=smoke|quick|full RUN=name NB=01 P="-p ..." RENDERER=quarto HOSTS=FILE'

# ---- the two commands ------------------------------------------------------
paper: setup  ## everything from nothing: build, studies, HTML and PDF
	@$(PY) -m connlab paper --profile $(PROFILE) $(RUN:%=--run %) \
		$(RENDERER:%=--renderer %) $(HOSTS:%=--hosts %)

test: setup-test  ## set up, build, run the short tests
	@$(SELF) build && $(SELF) $(JOBS) c-tests rewritten && $(SELF) test-py

test-long: setup-test  ## all others: sanitizers, soak, notebooks, fuzzing
	@$(SELF) build && $(if $(FUZZES),$(SELF) -j$(words $(FUZZERS)) fuzz &&) \
		$(SELF) test-py MARKED=long

# ---- one step of it --------------------------------------------------------
setup:  ## Python packages into .venv, system packages when allowed
	@sh tools/setup.sh run $(if $(filter setup,$(MAKECMDGOALS)),--retry)

setup-test:
	@sh tools/setup.sh test

build:  ## compile the programs of src_c and its lessons
	@$(SELF) $(JOBS) programs

programs: $(programs) $(lessons) $(BUILD)/flags.json

notebook: setup  ## one study anew: NB=01 P="-p trials 10"
	@$(SELF) build
	@$(PY) -m connlab notebook $(or $(NB),01) --profile $(PROFILE) \
		$(RUN:%=--run %) $(HOSTS:%=--hosts %) $(P)

render: setup  ## set the paper from runs/$(RUN), measure nothing
	@$(PY) -m connlab render $(RUN:%=--run %) $(RENDERER:%=--renderer %)

evaluate: setup  ## figures and tables of runs/$(RUN) anew, NB=01 or all
	@$(PY) -m connlab evaluate $(NB) $(RUN:%=--run %)

archive: setup  ## sources, runs/$(RUN) and its paper in one file to deposit
	@$(PY) -m connlab archive $(RUN:%=--run %)

contribute: setup  ## runs/$(RUN) without names, in one file to give
	@$(PY) -m connlab contribute $(RUN:%=--run %)

doctor: setup  ## what this machine can measure, what limits it
	@$(SELF) build
	@$(PY) -m connlab doctor

judge: setup  ## your own server: SERVER="./mine --port {port}"
	@$(SELF) build
	@$(PY) -m connlab judge $(if $(SERVER),'$(subst ','\'',$(SERVER))')

runtimes: setup  ## servers in other languages, where their tools are here
	@$(SELF) build
	@$(PY) -m connlab runtimes $(R)

bench: setup  ## all models and the client against targets: P="--budget 9min"
	@$(SELF) build
	@$(PY) -m connlab bench $(P)

lab: setup  ## hosts of network namespaces, as root: HOSTS=3
	@$(SELF) build
	@$(PY) -m connlab hosts lab --hosts $(or $(HOSTS),3)

lab-down: setup  ## remove them
	@$(PY) -m connlab hosts lab-down

# Compiles them; tests/test_c_units.py runs each as a test among the others.
c-tests: $(c_tests)

# Most tests wait, so that more than there are cores run at once. They share what
# Python compiles, also where the environment forbids it to keep that.
TESTERS ?= 6
MARKED  ?= not long
test-py rewritten: export PYTHONDONTWRITEBYTECODE =
test-py: setup-test
	@$(PY) -m pytest -n $(TESTERS) --dist loadgroup \
		--no-loadscope-reorder -m '$(MARKED)' $(T)

# What pytest makes of asserts, before all testers of a fresh clone make it at once.
rewritten: setup-test
	@test -d tests/__pycache__ || $(PY) -m pytest --collect-only -q >/dev/null || :

fuzz: $(FUZZERS:%=fuzz-%)  ## fuzz the parsers, FUZZ_S=30 seconds each

# What CI builds is as strict itself.
LINTED = $(if $(STRICT),$(BUILD),build/lint)
CLANG_FORMAT = find src_c tests -name "*.[ch]" -exec $(dir $(PY))clang-format
lint: setup  ## what CI asks first: ruff, mypy, typed numbers, -Werror, ...
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .
	@$(PY) -m mypy && $(PY) tools/lint_package.py && $(PY) -m connlab lint-paper
	@$(CLANG_FORMAT) --dry-run -Werror {} + && $(SELF) build BUILD=$(LINTED) CI=true
	@! LC_ALL=C.UTF-8 grep -rnE --include=*.[ch] '^.{81,}' src_c

format: setup  ## let ruff lay out the Python
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix .

format-c: setup  ## let clang-format lay out the C
	@$(CLANG_FORMAT) -i {} +

lock: setup  ## pin the packages of pyproject.toml anew
	@sh tools/setup.sh lock

clean:  ## remove what was built (runs and .venv stay)
	rm -rf build $(addprefix paper/,_output _generated _variables.yml data .quarto \
		index.html index.pdf index.typ paper.pdf index_files)

# ---- how C becomes programs ------------------------------------------------
# flags.json changes only when compiler or flags do; then all is compiled anew.
CC_VERSION := $(if $(CC),$(shell $(CC) --version 2>/dev/null | head -n 1))
FLAGS_JSON = {"compiler":"$(CC)","version":"$(CC_VERSION)",$\
	"cflags":"$(strip $(ALL_CFLAGS))","cppflags":"$(strip $(ALL_CPPFLAGS))",$\
	"ldflags":"$(strip $(LDFLAGS))","libs":"$(strip $(LIBS))",$\
	"uring":$(if $(URING),true,false),"sanitize":"$(SAN)"}

$(BUILD)/flags.json: FORCE
	@$(if $(CC),,echo 'no C compiler found: install gcc, or make CC=...'; exit 1)
	@mkdir -p $(@D)
	@echo '$(FLAGS_JSON)' | cmp -s - $@ || echo '$(FLAGS_JSON)' > $@

$(BUILD)/obj/%.o: src_c/%.c $(BUILD)/flags.json
	@mkdir -p $(@D)
	@echo "  CC  $<"
	@$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(HERE) -MMD -MP -c -o $@ $<

$(BUILD)/server: $(call objects,$(server_srcs))
$(BUILD)/client: $(call objects,$(client_srcs))
$(BUILD)/floor: $(call objects,$(floor_srcs))
$(BUILD)/external: $(call objects,$(external_srcs))
# A lesson is one file with a main(), linked with nothing of ours.
$(lessons): $(BUILD)/%: $(BUILD)/obj/%.o
# A C test is one file with a main(), linked with all but the program's own.
$(server_tests): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/libserver.a
$(client_tests): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/libclient.a

$(programs) $(lessons) $(c_tests):
	@mkdir -p $(@D)
	@echo "  LD  $@"; $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libserver.a: $(call objects,$(filter-out server/server.c,$(server_srcs)))
$(BUILD)/libclient.a: $(call objects,$(filter-out client/client.c,$(client_srcs)))
$(BUILD)/lib%.a:
	@rm -f $@; $(AR) rcs $@ $^

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
