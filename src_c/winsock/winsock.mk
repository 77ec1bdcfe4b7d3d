# winsock.mk -- `make winsock`: build/winsock/server.exe, Windows' six models.
#
# Nothing of it is part of `make build`: it needs a cross compiler, and to run
# the program Wine or a Windows machine. docs/windows.md says how.
WINSOCK_CC ?= x86_64-w64-mingw32-gcc
WINSOCK_HAVE := $(shell command -v $(WINSOCK_CC))
WINSOCK_NEEDS = no $(WINSOCK_CC): apt install gcc-mingw-w64-x86-64-win32
WINSOCK_FLAGS = -std=c11 -O2 -g -pedantic $(WARN) -Isrc_c \
	-D_WIN32_WINNT=0x0600 -DWIN32_LEAN_AND_MEAN
winsock_srcs := $(wildcard src_c/winsock/*.c src_c/winsock/models/*.c)
winsock_headers := $(wildcard src_c/winsock/*.h src_c/winsock/*/*.h) \
	src_c/winsock/models.def

.PHONY: winsock
winsock:  ## Windows' six models, with mingw-w64: docs/windows.md
	@$(if $(WINSOCK_HAVE),,echo '$(WINSOCK_NEEDS)'; exit 1)
	@$(SELF) $(BUILD)/winsock/server.exe

$(BUILD)/winsock/server.exe: $(winsock_srcs) $(winsock_headers)
	@mkdir -p $(@D) && echo "  CC  $@"
	@$(WINSOCK_CC) $(WINSOCK_FLAGS) -static -o $@ $(winsock_srcs) \
		-lws2_32 -luser32
