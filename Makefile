# Makefile of Forerun: the only build. `make help` lists the targets.
#
#   BUILD   folder of everything built (build)
#   MODEL   a GGUF file or URL for demo, serve and bench (the default model, fetched once into the cache)
#   PORT    where serve listens (8080)
#   ONLY    tests to run with test-unit and test-asan, by the beginning of their names
#   JOBS    tests of test-unit and test-asan at a time (the number of processors)
#   V=1     show the commands
#
# Pins are in deps/pins; what is fetched lies in a cache outside the tree (deps/fetch.sh), and its files are ordinary targets here.

include deps/pins

BUILD        ?= build
Q            := $(if $(V),,@)
FUZZ_SECONDS ?= 60
JOBS         ?= $(shell nproc)
CACHE        := $(or $(FORERUN_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/forerun)
DAWN         := $(CACHE)/$(DAWN_PACKAGE)-$(DAWN_VERSION)/$(DAWN_FILE)
WEBGPU_DIR   := $(CACHE)/$(WEBGPU_PACKAGE)-$(WEBGPU_VERSION)
WEBGPU_H     := $(WEBGPU_DIR)/$(WEBGPU_FILE)
MODEL_CACHED := $(CACHE)/$(MODEL_PACKAGE)-$(MODEL_VERSION)/$(MODEL_FILE)
MODEL        ?= $(MODEL_CACHED)
PORT         ?= 8080
GEN          := $(BUILD)/gen
OBJ          := $(BUILD)/obj
WASM         := $(BUILD)/wasm/forerun.wasm
SELFTEST     := $(BUILD)/wasm/selftest.wasm
PACKAGE      := web/dist/package.json

# The core must give the same bits everywhere, so the compiler may not contract a*b+c: kernels and their twins say fma where they mean it.
CC      := clang-19
WARN    := -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror
COMMON  := $(WARN) -Iinclude -Isrc -I. -I$(GEN) -isystem $(WEBGPU_DIR) -ffp-contract=off -MMD -MP
POSIX   := -D_XOPEN_SOURCE=700 -DFR_MODEL_IN_CACHE='"$(MODEL_PACKAGE)-$(MODEL_VERSION)/$(MODEL_FILE)"'

# The same rules build three kinds of native code, each in a BUILD of its own: plain, asan and fuzz (see the targets of these names).
VARIANT      ?= plain
SANITIZE     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_plain := -O2 -g
CFLAGS_asan  := $(SANITIZE)
CFLAGS_fuzz  := $(SANITIZE) -fsanitize=fuzzer-no-link
CFLAGS       := $(CFLAGS_$(VARIANT))

WASM_CFLAGS := --target=wasm32-wasi --sysroot=/usr -O3 -flto -msimd128 -mbulk-memory -mnontrapping-fptoint
WASM_LINK   := -mexec-model=reactor -Wl,--export-table -Wl,--stack-first -Wl,--strip-all

# Sources are found, not listed. What in test/ is neither an area (test_*) nor a fuzzer (fuzz_*) helps those.
SRC         := $(sort $(shell find src -name '*.c'))
REF         := $(sort $(shell find ref -name '*.c'))
CLI         := $(sort $(wildcard cli/*.c cli/*/*.c))
WASM_SRC    := $(SRC) $(sort $(wildcard web/wasm/*.c))
SELFTEST_SRC := $(SRC) $(REF) tools/tiny_writer.c web/wasm/nostdio.c $(sort $(wildcard web/wasm/selftest/*.c))
AREAS       := $(filter-out test/test_main.c,$(sort $(wildcard test/test_*.c)))
FUZZERS     := $(sort $(wildcard test/fuzz_*.c))
HELPERS     := $(filter-out test/test_main.c $(AREAS) $(FUZZERS),$(sort $(wildcard test/*.c))) tools/tiny_writer.c
KERNELS     := $(sort $(shell find kernels -name '*.wgsl'))
KERNEL_DIRS := $(shell find kernels -type d)
objects      = $(patsubst %.c,$(OBJ)/%.o,$(1))

.PHONY: all native wasm web test check asan fuzz fuzzers model model-path demo serve bench bench-web peers sizes clean help setup
.PHONY: $(addprefix system-,native wasm test browser) $(addprefix test-,check unit asan cli web readme fuzz)
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

all: native web

help:
	@echo 'make demo    set up, then let the default model summarise an article in headless Chromium (MODEL=path-or-url)'
	@echo 'make test    set up, then every check and test; the last line says how many passed'
	@echo 'make serve   set up, then serve the demo page for your own browser (PORT=8080)'
	@echo
	@echo 'make all     native and web             make native      $(BUILD)/forerun'
	@echo 'make wasm    $(WASM)    make web         the npm package in web/dist'
	@echo 'make check   layout, includes, sizes    make asan, fuzz  the tests with sanitizers, the fuzzers (FUZZ_SECONDS each)'
	@echo 'make model   fetch the default model    make model-path  print where it is'
	@echo 'make bench   native speed of MODEL      make bench-web   the same in headless Chromium, as JSON'
	@echo 'make sizes   of the package, gzipped    make clean       remove $(BUILD) and web/dist'
	@echo 'make test-check, test-unit, test-asan, test-cli, test-web, test-readme, test-fuzz   one suite of make test (ONLY=area.name for unit, asan)'

# ---- what comes from outside

system-native system-wasm system-test system-browser: system-%:
	@deps/system.sh $*
setup:
	@deps/system.sh native wasm test browser

$(DAWN):
	@deps/fetch.sh dawn
$(WEBGPU_H):
	@deps/fetch.sh webgpu
$(MODEL_CACHED):
	@deps/fetch.sh model
model: $(MODEL_CACHED)
model-path:
	@echo $(MODEL_CACHED)

# ---- generated sources

$(BUILD)/embed: tools/embed.c src/gpu/shared.def | system-native
	@mkdir -p $(@D)
	@echo 'cc   $<'
	$(Q)$(CC) $(WARN) -Isrc -O1 -o $@ $<
# The tool leaves equal files alone, the stamp tells make that it ran. The folders are there so that a deleted kernel counts.
$(GEN)/kernels.stamp: $(BUILD)/embed $(KERNELS) $(KERNEL_DIRS)
	@mkdir -p $(@D)
	@$(BUILD)/embed $(GEN) $(KERNELS)
	@touch $@
$(GEN)/kernels_gen.c $(GEN)/kernels_gen.h: $(GEN)/kernels.stamp ;
$(GEN)/test_areas.c: tools/test_areas.sh test/.
	@mkdir -p $(@D)
	@sh tools/test_areas.sh $(AREAS) > $@

# ---- native

native: $(BUILD)/forerun

NEEDS := Makefile deps/pins | $(GEN)/kernels_gen.h $(WEBGPU_H) system-native
define compile
@mkdir -p $(@D)
@echo 'cc   $<'
$(Q)$(CC) $(COMMON) $(1) -c -o $@ $<
endef
$(OBJ)/src/%.o: src/%.c $(NEEDS)
	$(call compile,$(CFLAGS))
$(OBJ)/ref/%.o: ref/%.c $(NEEDS)
	$(call compile,$(CFLAGS))
$(OBJ)/gen/%.o: $(GEN)/%.c $(NEEDS)
	$(call compile,$(CFLAGS))
$(OBJ)/%.o: %.c $(NEEDS)
	$(call compile,$(CFLAGS) $(POSIX))

# libforerun is the core alone; libsupport is what programs may take besides: the native host, the CPU twins, helpers of tests.
define archive
@echo 'ar   $@'
@rm -f $@ && ar rcs $@ $^
endef
$(BUILD)/libforerun.a: $(call objects,$(SRC)) $(OBJ)/gen/kernels_gen.o
	$(archive)
$(BUILD)/libsupport.a: $(call objects,$(filter-out cli/main.c,$(CLI)) $(REF) $(HELPERS))
	$(archive)
# Dawn beside the programs, so that they find it without a path of this machine in them.
$(BUILD)/$(DAWN_FILE): | $(DAWN)
	@mkdir -p $(@D)
	@ln -sf $(abspath $(DAWN)) $@

LIBS := $(BUILD)/libsupport.a $(BUILD)/libforerun.a
define link
@echo 'link $@'
$(Q)$(CC) $(CFLAGS) $(1) -o $@ $(filter %.o %.a,$^) -Wl,--as-needed -L$(BUILD) -l:$(DAWN_FILE) -lm -Wl,-rpath,'$$ORIGIN'
endef
$(BUILD)/forerun: $(OBJ)/cli/main.o $(LIBS) | $(BUILD)/$(DAWN_FILE)
	$(call link)
$(BUILD)/test: $(call objects,test/test_main.c $(AREAS)) $(OBJ)/gen/test_areas.o $(LIBS) | $(BUILD)/$(DAWN_FILE)
	$(call link)
$(BUILD)/tiny_model: $(OBJ)/tools/tiny_model.o $(LIBS) | $(BUILD)/$(DAWN_FILE)
	$(call link)
$(BUILD)/fuzz_%: $(OBJ)/test/fuzz_%.o $(LIBS) | $(BUILD)/$(DAWN_FILE)
	$(call link,-fsanitize=fuzzer)

asan:
	@$(MAKE) VARIANT=asan BUILD=$(BUILD)/asan $(BUILD)/asan/test $(BUILD)/asan/forerun

# ---- wasm and the npm package

$(BUILD)/wasm/obj/gen/%.o: $(GEN)/%.c $(NEEDS) system-wasm
	$(call compile,$(WASM_CFLAGS))
$(BUILD)/wasm/obj/%.o: %.c $(NEEDS) system-wasm
	$(call compile,$(WASM_CFLAGS))
# Only webgpu.h's functions may be imports; any other undefined symbol stays an error.
$(BUILD)/wasm/webgpu.syms: $(WEBGPU_H)
	@mkdir -p $(@D)
	@grep -oE '\bwgpu[A-Z][A-Za-z0-9]+\(' $< | tr -d '(' | sort -u > $@
wasm_objects = $(patsubst %.c,$(BUILD)/wasm/obj/%.o,$(1)) $(BUILD)/wasm/obj/gen/kernels_gen.o
define link_wasm
@echo 'link $@'
$(Q)$(CC) $(WASM_CFLAGS) $(WASM_LINK) -Wl,-z,stack-size=$(1) -Wl,--allow-undefined-file=$(BUILD)/wasm/webgpu.syms -o $@ $(filter %.o,$^)
endef
$(WASM): $(call wasm_objects,$(WASM_SRC)) $(BUILD)/wasm/webgpu.syms | system-wasm
	$(call link_wasm,65536)
# The self-test of the page that runs it; not part of the package.
$(SELFTEST): $(call wasm_objects,$(SELFTEST_SRC)) $(BUILD)/wasm/webgpu.syms | system-wasm
	$(call link_wasm,1048576)
wasm: $(WASM)

# npm keeps the file last, so it tells when the install was complete.
NODE_MODULES := web/node_modules/.package-lock.json
$(NODE_MODULES): web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@
WEB_SRC := $(sort $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print))
$(PACKAGE): $(WASM) $(SELFTEST) $(NODE_MODULES) $(WEB_SRC)
	cd web && FORERUN_WASM=$(abspath $(dir $(WASM))) npm run --silent build
	@touch $@
web: $(PACKAGE)

# ---- programs for people

DEFAULT_MODEL = $(filter $(MODEL_CACHED),$(MODEL))
demo: web native $(DEFAULT_MODEL) | system-browser
	@exec node web/tools/demo.mjs --model "$(MODEL)"
serve: web $(DEFAULT_MODEL)
	@exec node web/tools/serve.mjs --model "$(MODEL)" --port "$(PORT)"
bench: native $(DEFAULT_MODEL)
	@$(BUILD)/forerun bench "$(MODEL)"
bench-web: web $(DEFAULT_MODEL) | system-browser
	@node web/tools/bench.mjs --model "$(MODEL)"
# What bench/suite.py measures beside this engine; nothing else needs it. `npm ci` wants packages for other systems in the lock file, too.
peers:
	cd bench/peers && npm install --no-save --omit=optional
sizes: web
	@for f in web/dist/forerun.wasm web/dist/index.js web/dist/worker.js; do printf '%7d bytes, %6d gzipped: %s\n' $$(wc -c < $$f) $$(gzip -9 -c $$f | wc -c) $$f; done

# ---- tests. tools/suites.sh runs the suites, each as `make test-NAME`, and adds up their last lines. Those that leave a processor idle run
# side by side, so all that they build is built before.

SUITES      := check unit asan
SIDE_SUITES := web cli fuzz readme
export FORERUN_WEBGPU_INCLUDE := $(abspath $(WEBGPU_DIR))
export FORERUN_MODEL := $(abspath $(MODEL_CACHED))
export FORERUN_BUILD := $(abspath $(BUILD))
test: setup $(DAWN) $(WEBGPU_H) $(MODEL_CACHED)
	@-$(MAKE) -s -k native web asan $(BUILD)/tiny_model $(BUILD)/test fuzzers
	@MAKE="$(MAKE)" LOGS="$(BUILD)/log" sh tools/suites.sh $(SUITES) -- $(SIDE_SUITES)

check test-check: system-test $(GEN)/kernels_gen.h $(GEN)/test_areas.c
	@node tools/check.mjs $(BUILD)
test-unit: $(BUILD)/test $(MODEL_CACHED) | system-browser
	@$(BUILD)/test --jobs $(JOBS) $(addprefix --only ,$(ONLY))
test-asan: asan | system-test
	@$(BUILD)/asan/test --no-gpu --jobs $(JOBS) $(addprefix --only ,$(ONLY))
test-cli: native asan $(BUILD)/tiny_model $(MODEL_CACHED) | system-browser
	@node test/cli_test.mjs
test-web: web native $(BUILD)/tiny_model $(MODEL_CACHED) | system-browser
	@cd web && npm test --silent
test-readme: native web $(MODEL_CACHED) | system-browser
	@node test/readme_test.mjs
fuzzers: | system-test
	@$(MAKE) VARIANT=fuzz BUILD=$(BUILD)/fuzz $(patsubst test/%.c,$(BUILD)/fuzz/%,$(FUZZERS))
fuzz test-fuzz: fuzzers
	@sh tools/fuzz.sh $(BUILD)/fuzz $(FUZZ_SECONDS) $(patsubst test/%.c,%,$(FUZZERS))

clean:
	rm -rf $(BUILD) web/dist

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
