#!/bin/sh
# setup.sh -- give connlab what it needs, once.
#
#     sh tools/setup.sh run     compiler, liburing, redis; Python packages
#     sh tools/setup.sh test    that, and the tools that only tests use
#     sh tools/setup.sh lock    pin the packages of pyproject.toml anew
#     ... run --retry           ask apt again for what it could not give
#
# Python packages go into .venv from requirements.lock, each checked by its
# hash; with the conda environment of environment.yml active, nothing is
# installed. System packages come through apt where we may use it (root, or
# sudo without a password; CONNLAB_APT=no forbids it). What stays missing is
# said in one line each, with what cannot be measured without it.
#
# A stamp in .venv remembers what was done, so that a second call takes
# tenths of a second and needs no network.
set -eu

venv=.venv
stamp=$venv/.connlab

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
conda_ours() { [ "${CONDA_DEFAULT_ENV:-}" = connlab ]; }

# ---- system packages --------------------------------------------------------

compiles() {  # $1: a line of C, $2: a name that it has to declare
	for cc in "${CC:-gcc}" gcc cc clang; do
		have "${cc%% *}" || continue
		# shellcheck disable=SC2086 # CC may have words, as in: ccache gcc
		printf '%s\nint main(void) { (void)%s; return 0; }\n' "$1" "${2:-0}" |
			$cc ${CPPFLAGS:-} -fsyntax-only -x c - 2>/dev/null
		return
	done
	return 1
}

fuzzes() {  # clang brings its run-time only as a recommended package
	echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
}

browser() { have chromium || have google-chrome; }

perf_package() {  # Ubuntu's perf is a script; the program is of the running kernel
	if grep -qsE '^ID(_LIKE)?=.*ubuntu' /etc/os-release; then
		echo "linux-tools-$(uname -r)"
	else
		echo linux-perf
	fi
}

# Each line: is it there? | the Debian package | what goes missing without it
needs_run() {
	cat <<-END
	compiles '#include <sys/epoll.h>' epoll_pwait2|gcc libc6-dev|servers and client, which need glibc 2.35 or later: nothing works
	have make|make|servers and client: nothing works
	compiles '#include <liburing.h>' io_uring_prep_recv_multishot|liburing-dev|the io_uring models, which need 2.3 or later
	have redis-server|redis-server|the guestbook, which asks Redis
	have ip|iproute2|hosts of network namespaces, of study 14
	have strace|strace|counts of calls of a server that is judged, and of the course
	perf --version >/dev/null 2>&1|$(perf_package)|system calls per request, of study 12
	END
}

needs_test() {
	cat <<-'END'
	fuzzes|clang libclang-rt-dev|fuzz tests
	have valgrind|valgrind|leak tests
	browser|chromium|tests of the page in a browser (Ubuntu: snap install chromium)
	chromedriver --version >/dev/null 2>&1|chromium-driver|tests of the page in a browser
	have pdftotext|poppler-utils|tests of the PDF
	have curl|curl|a stranger's client
	have wrk|wrk|a stranger's client
	have ab|apache2-utils|a stranger's client
	have nc|netcat-openbsd|a stranger's client
	test -e /usr/include/uv.h|libuv1-dev|tests of the libuv server
	test -e /usr/include/event2/event.h|libevent-dev|tests of the libevent server
	test -e /usr/include/boost/asio.hpp|libboost-dev|tests of the Boost.Asio server
	test -x /usr/sbin/nginx|nginx-light|tests of nginx
	test -x /usr/sbin/apache2|apache2-bin|tests of Apache httpd
	have wine && have x86_64-w64-mingw32-gcc|wine wine64 gcc-mingw-w64-x86-64-win32|tests of the Windows servers
	END
}

missing() {  # $1 = run or test; prints the lines of needs that fail
	{ needs_run; if [ "$1" = test ]; then needs_test; fi; } |
		while IFS='|' read -r probe package loss; do
			eval "$probe" </dev/null || echo "$package|$loss"
		done
}

as_root() {  # sudo keeps no proxy of ours, without which apt may reach nobody
	if [ "$(id -u)" = 0 ]; then "$@"; else
		sudo -n env ${http_proxy:+"http_proxy=$http_proxy"} \
			${https_proxy:+"https_proxy=$https_proxy"} "$@"
	fi
}

may_apt() {
	[ "${CONNLAB_APT:-yes}" != no ] && ! conda_ours && have apt-get &&
		{ [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

apt_install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "$@" </dev/null >/dev/null 2>&1
}

apt_known() {  # of these packages, those that this system has
	for package in "$@"; do
		apt-cache show "$package" >/dev/null 2>&1 && echo "$package"
	done
}

apt_get() {  # all at once; those that are known; one by one when one is refused
	say "apt-get install $*"
	apt_install "$@" && return
	as_root apt-get update -qq </dev/null >/dev/null 2>&1 || :
	# shellcheck disable=SC2046 # a list of package names
	set -- $(apt_known "$@")
	apt_install "$@" && return
	for package in "$@"; do
		apt_install "$package" || :
	done
}

system() {  # $1 = run or test, $2 = --retry or nothing
	lacks=$(missing "$1")
	[ -n "$lacks" ] || return 0
	memo=$venv/.lacks-$1
	previous=$(cat "$memo" 2>/dev/null || :)
	if { [ "$lacks" != "$previous" ] || [ "$2" = --retry ]; } && may_apt; then
		# shellcheck disable=SC2046 # a list of package names
		apt_get $(echo "$lacks" | cut -d'|' -f1)
		lacks=$(missing "$1")
	fi
	[ -n "$lacks" ] || return 0
	how=$(have apt-get && echo "apt install" || echo "Debian's name:")
	echo "$lacks" | while IFS='|' read -r package loss; do
		say "missing: $package ($how $package); without it: $loss"
	done
	if [ -d $venv ]; then echo "$lacks" >"$memo"; fi
}

# ---- Python -----------------------------------------------------------------

fits() {
	"$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
		2>/dev/null
}

find_python() {
	if [ -n "${PYTHON:-}" ]; then
		fits "$PYTHON" || die "PYTHON: $PYTHON; allowed: a Python of 3.11 to 3.14"
		echo "$PYTHON"
		return
	fi
	for py in python3 python3.13 python3.12 python3.11 python3.14; do
		if fits "$py"; then echo "$py"; return; fi
	done
	die "Python 3.11 to 3.14 is needed ($(python3 --version 2>/dev/null ||
		echo 'no python3') here): install it, say PYTHON=/its/path," \
		"or conda env create -f environment.yml"
}

make_venv() {
	if ! have python3 && may_apt; then apt_get python3 python3-venv; fi
	py=$(find_python)
	if ! "$py" -c 'import ensurepip' 2>/dev/null; then
		version=$("$py" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
		if may_apt; then apt_get "python$version-venv"; fi
		"$py" -c 'import ensurepip' 2>/dev/null ||
			die "$py has no venv: apt install python$version-venv"
	fi
	rm -rf $venv
	"$py" -m venv $venv || die "$py -m venv $venv failed"
}

# uv installs in seconds what takes pip a minute; its own pin comes first. Compiled once,
# not by each process where PYTHONDONTWRITEBYTECODE is set, pandas is there in 1 s, not 4.
install_packages() {
	awk '/^uv==/ { p = 1 } p { print } p && !/\\$/ { exit }' \
		requirements.lock >$venv/uv.lock
	$venv/bin/python -m pip install -q --require-hashes --no-deps \
		-r $venv/uv.lock >$venv/setup.log 2>&1 &&
		$venv/bin/uv pip install -q --python $venv/bin/python \
			--compile-bytecode --require-hashes -r requirements.lock >>$venv/setup.log 2>&1 &&
		return
	$venv/bin/python -m pip install -q --require-hashes \
		-r requirements.lock >>$venv/setup.log 2>&1
}

# After an upgrade of the system's Python, that of .venv is the new one, and finds
# nothing of what the old one was given.
finds_packages() {
	$venv/bin/python -c 'import importlib.util as find, sys
sys.exit(find.find_spec("pip") is None)' 2>/dev/null
}

# PYTHON is given, and .venv is of another one.
other_python() {
	[ -n "${PYTHON:-}" ] || return 1
	which='import sys; print(sys.version_info[:3], sys.base_prefix)'
	[ "$("$PYTHON" -c "$which" 2>/dev/null)" != "$($venv/bin/python -c "$which")" ]
}

# Its scripts, and activate, name the place in which it was made.
moved() {
	for file in $venv/lib/*/site-packages/connlab.pth; do
		[ ! -f "$file" ] || [ "$(cat "$file")" -ef . ] || return 0
	done
	return 1
}

# What .venv was made for: the lock, the place it stands in.
wanted() { { cat requirements.lock; pwd; } | cksum; }

importable() {  # connlab from anywhere, as notebooks do
	pwd >"$("$1" -c 'import sysconfig
print(sysconfig.get_path("purelib"))')/connlab.pth"
}

python_packages() {
	if conda_ours; then
		python -c 'import papermill, typst' 2>/dev/null ||
			die "conda environment is incomplete:" \
				"conda env update -f environment.yml"
		importable python
		return 0
	fi
	if [ "$(wanted)" = "$(cat $stamp 2>/dev/null)" ] &&
		fits $venv/bin/python && finds_packages && ! other_python; then
		return 0
	fi
	# one that was stopped while it was made has a Python, and not all of pip
	if ! $venv/bin/python -m pip install --help >/dev/null 2>&1 ||
		! fits $venv/bin/python || moved || other_python; then
		make_venv
	fi
	say "Python packages into $venv"
	rm -f $stamp
	install_packages || {
		tail -n 3 $venv/setup.log >&2
		die "packages could not be had (no network?), see $venv/setup.log"
	}
	importable $venv/bin/python
	wanted >$stamp
}

# What the programs call is Linux's own; elsewhere the compiler would say so at length.
need_linux() {
	case $(uname -s 2>/dev/null) in
	Darwin | *BSD | MINGW* | MSYS* | CYGWIN*)
		die "$(uname -s): connlab needs Linux, as a virtual machine or container has it"
		;;
	esac
}

lock() {
	$venv/bin/uv pip compile -q --universal --python-version 3.11 \
		--no-build --generate-hashes --no-emit-index-url --all-extras \
		--no-header --no-annotate --upgrade pyproject.toml \
		-o requirements.lock
	if grep -n '://' requirements.lock; then
		die "an address got into requirements.lock"
	fi
}

case ${1:-} in
run | test) need_linux; python_packages; system "$1" "${2:-}" ;;
lock) lock ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
