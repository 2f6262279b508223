# SPDX-License-Identifier: BSD-2-Clause
#
# make            builds build/xdp2roce
# make demo       installs what is missing, builds, and shows a transfer between two namespaces (root)
# make check      installs what is missing, builds, runs every test (root)
# make V=1 …      shows the commands
#
# CC=clang works everywhere; SANITIZE=1 builds with ASan and UBSan into a build directory of its own.

CC = gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
SANITIZE ?= 0
BUILD = build/$(if $(filter fuzz,$(SANITIZE)),fuzz,$(if $(filter 1,$(SANITIZE)),sanitize,release))-$(CC)

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$@)')

LIBS = libxdp libbpf libisal libmnl json-c zlib libibverbs
PKG_CFLAGS := $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(LIBS) 2>/dev/null)

WARN = -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
CFLAGS = -O2 -g
CPPFLAGS = -Iinclude -I$(BUILD) -D_GNU_SOURCE $(PKG_CFLAGS)
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) -pthread -MMD -MP
ALL_LDFLAGS = $(LDFLAGS) -pthread
ifeq ($(SANITIZE),1)
ALL_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ALL_LDFLAGS += -fsanitize=address,undefined
endif
ifeq ($(SANITIZE),fuzz)
ALL_CFLAGS += -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ALL_LDFLAGS += -fsanitize=address,undefined
endif

.PHONY: all demo check check-% clean format tests unit-tests fuzzers fuzz-programs
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/xdp2roce
	$(Q)ln -sfn $(notdir $(BUILD))/xdp2roce build/xdp2roce

# Everything but main() goes into one archive, from which programs and tests take what they use.
MAINS = user/cli/main.c
SOURCES = $(filter-out $(MAINS),$(wildcard user/*/*.c))
OBJECTS = $(SOURCES:%.c=$(BUILD)/%.o)

$(BUILD)/libxdp2roce.a: $(OBJECTS)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcsP $@ $^

$(BUILD)/xdp2roce: $(BUILD)/user/cli/main.o $(BUILD)/libxdp2roce.a
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

$(BUILD)/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# BPF: one object per program, and a skeleton header that embeds it.
BPF_CFLAGS = --target=bpf -mcpu=v3 -std=gnu17 -O2 -g -Wall -Wextra -Werror -Iinclude -I$(BUILD) \
	-idirafter /usr/include/$(shell gcc -print-multiarch)

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h) $(wildcard include/xdp2roce/*.h)
	$(call say,BPF)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@.tmp $<
	$(Q)$(BPFTOOL) gen object $@ $@.tmp && rm $@.tmp

$(BUILD)/bpf/gen_crc_table: $(BUILD)/bpf/gen_crc_table.o
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^

$(BUILD)/bpf/crc_table.h: $(BUILD)/bpf/gen_crc_table
	$(call say,GEN)
	$(Q)$< >$@

$(BUILD)/bpf/ack_processor.bpf.o: $(BUILD)/bpf/crc_table.h

$(BUILD)/bpf/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(call say,SKEL)
	$(Q)$(BPFTOOL) gen skeleton $< name $* >$@

$(BUILD)/user/daemon/xdp_program.o: $(BUILD)/bpf/ack_processor.skel.h

# Tests: tests/unit and tests/bpf hold one Criterion program per file.
UNIT = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
BENCH = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
BPF_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bpf/test_*.c))

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libxdp2roce.a
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcriterion

$(BPF_TESTS): $(BUILD)/tests/bpf/frame.o $(BUILD)/tests/bpf/harness.o
$(BUILD)/tests/bpf/%.o: $(BUILD)/bpf/ack_processor.skel.h

unit-tests: $(UNIT)
tests: $(UNIT) $(BPF_TESTS) $(BENCH) $(BUILD)/tests/net/receiver

# Fuzzers: one libFuzzer program per file of tests/fuzz, on an archive of its own.
FUZZERS = $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

fuzzers:
	$(Q)$(MAKE) --no-print-directory CC=clang SANITIZE=fuzz fuzz-programs

fuzz-programs: $(FUZZERS)

$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/libxdp2roce.a
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(PKG_LIBS)

# The two commands of the README. What they need is installed first, then make starts afresh.
demo:
	$(Q)scripts/setup demo
	$(Q)$(MAKE) --no-print-directory all
	$(Q)scripts/demo

check:
	$(Q)scripts/setup all
	$(Q)scripts/check

check-%:
	$(Q)scripts/setup all
	$(Q)scripts/check $*

format:
	$(Q)clang-format -i $(shell git ls-files '*.c' '*.h' 2>/dev/null)

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
