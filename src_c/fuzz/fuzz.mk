# fuzz.mk -- `make fuzz`: clang's libFuzzer, with sanitizers, on the parsers.
#
# New inputs gather in BUILD/fuzz/found-NAME. To keep what they reach:
#     BUILD/fuzz/fuzz_NAME -merge=1 src_c/fuzz/corpus/NAME BUILD/fuzz/found-NAME
# A bug leaves the input that shows it as BUILD/fuzz/crash-...; it becomes a
# case of src_c/tests/ and a file of the corpus.
FUZZERS := http work resp
# Whether this machine can; tools/setup.sh says so where it cannot.
FUZZES = $(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang \
	-fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null && echo yes)
FUZZ_S ?= 30
FUZZ_FLAGS = -std=c11 -O1 -g -pthread -fsanitize=fuzzer,address,undefined \
	-fno-sanitize-recover=undefined
# What parses and answers, without the models and what waits for them.
waits := %/server.c %/options.c %/models.c
fuzz_srcs = $(filter-out $(waits),$(addprefix src_c/,\
	$(call sources_in,common server http redis workloads)))
fuzz_headers = $(wildcard src_c/*.h src_c/*/*.h)

$(BUILD)/fuzz/%: src_c/fuzz/%.c $(fuzz_srcs) $(fuzz_headers)
	@mkdir -p $(@D) && echo "  FUZZ-LD $@"
	@clang $(ALL_CPPFLAGS) $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(LIBS)

fuzz-%: $(BUILD)/fuzz/fuzz_%
	@case '$(FUZZ_S)' in ''|*[!0-9]*) \
		echo 'FUZZ_S: $(FUZZ_S); allowed: whole seconds' >&2; exit 2;; esac
	@mkdir -p $(<D)/found-$* && echo "  FUZZ $* for $(FUZZ_S) s"
	@$< -max_total_time=$(FUZZ_S) -max_len=2000 -dict=src_c/fuzz/$*.dict \
		-artifact_prefix=$(<D)/ $(<D)/found-$* src_c/fuzz/corpus/$* \
		>$<.log 2>&1 || { tail -n 60 $<.log; exit 1; }; tail -n 1 $<.log
