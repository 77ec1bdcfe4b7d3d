"""Set-up and Makefile: what a fresh clone meets first.

The Makefile is tried on a tree of five tiny C files, so that a rule's behaviour is
seen in tenths of a second; the set-up script on a directory of its own, with commands
hidden or replaced through PATH.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, in_repository, lay, ran, shown

from connlab import __main__, paper, profiles
from connlab.drive import progress

DOCS = sorted((ROOT / "docs").glob("*.md"))
PLAIN = ["sh", "awk", "cat", "cmp", "cut", "echo", "find", "grep", "head", "id"]
PLAIN += ["ls", "mkdir", "printf", "pwd", "rm", "sed", "tail", "cksum", "make"]
COMPILER = ["gcc", "as", "ld", "ar"]


def path_with(directory: Path, *names: str) -> str:
    """Return a PATH on which only the named commands are found."""
    directory.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name)
        if found and not (directory / name).exists():
            (directory / name).symlink_to(found)
    return str(directory)


def fake(directory: Path, name: str, text: str) -> None:
    """Put a command of the shell in place of another one."""
    path = directory / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def call(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess:
    """Run a command with the caller's environment but not its conda or make."""
    hidden = ("CI", "CONDA", "MAKE", "MFLAGS", "CFLAGS", "SAN", "BUILD")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return ran(*words, cwd=cwd, env=kept | environ)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a source tree with the real Makefile and a server of two files."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    sources = {
        "one.h": "int one(void);\n",
        "server/server.c": '#include "one.h"\nint main(void) { return one(); }\n',
        "client/client.c": "int main(void) { return 0; }\n",
        "models/one.c": '#include "one.h"\nint one(void) { return 0; }\n',
        "tests/test_one.c": '#include "one.h"\nint main(void) { return one(); }\n',
    }
    lay(tmp_path / "src_c", sources)
    return tmp_path


# ---- make -------------------------------------------------------------------


def test_make_alone_lists_the_targets() -> None:
    done = call("make", cwd=ROOT)
    assert done.returncode == 0
    listed = re.findall(r"^ +make ([a-z-]+)", done.stdout, flags=re.M)
    wanted = {"build", "test", "paper", "notebook", "render", "doctor", "clean"}
    assert wanted | {"winsock"} <= set(listed)
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_misspelt_variable_is_refused_and_those_of_the_texts_are_known() -> None:
    done = call("make", "-n", "notebook", "nb=3", cwd=ROOT)
    assert done.returncode == 2
    assert "nb: unknown; allowed: " in done.stderr
    texts = "".join(path.read_text() for path in (*ROOT.glob("*.md"), *DOCS))
    named = set(re.findall(r"\bmake [^`\n]*?\b([A-Z_]+)=", texts))
    assert {"NB", "RUN", "HOSTS"} <= named
    words = [f"{name}=x" for name in (*named, "CONNLAB_APT", "__of_bash__")]
    assert call("make", "-n", "help", *words, cwd=ROOT).returncode == 0


def test_where_nothing_can_be_fuzzed_the_other_long_tests_run(tmp_path: Path) -> None:
    """Without clang, of which set-up said that fuzz tests lack it, none did."""
    path = path_with(tmp_path / "bin", *PLAIN)
    for fuzzes in (False, True):
        if fuzzes:
            fake(tmp_path / "bin", "clang", "exit 0")
        rule = call("make", "-n", "test-long", cwd=ROOT, PATH=path).stdout
        assert rule.count("test-py MARKED=long") == 1
        assert (" fuzz &&" in rule) is fuzzes


@pytest.mark.parametrize("target", ["test-py", "notebook", "lab-down"])
def test_what_needs_python_sets_it_up(target: str) -> None:
    first = call("make", "-n", target, cwd=ROOT).stdout.splitlines()[0]
    assert first.startswith("sh tools/setup.sh")


def test_a_server_is_judged_as_it_is_given() -> None:
    """Its quotes ended those of the rule, and the shell ran the rest by itself."""
    server = "sh -c 'cd gil && exec ./mine {port}'"
    rule = call("make", "-n", "judge", f"SERVER={server}", cwd=ROOT).stdout
    assert shlex.split(rule.splitlines()[-1])[-2:] == ["judge", server]


def test_build_needs_compiler_and_make_only(tree: Path) -> None:
    path = path_with(tree / "bin", *PLAIN, *COMPILER)
    done = call("make", "build", cwd=tree, PATH=path)
    assert done.returncode == 0, done.stderr
    assert ran(tree / "build/server").returncode == 0
    assert (tree / "build/client").is_file()


def test_build_without_compiler_says_so(tree: Path) -> None:
    done = call("make", "build", cwd=tree, PATH=path_with(tree / "bin", *PLAIN))
    assert done.returncode != 0
    assert "C compiler" in done.stdout + done.stderr


def test_changed_header_recompiles_those_who_include_it(tree: Path) -> None:
    call("make", "build", cwd=tree)
    assert "CC" not in call("make", "build", cwd=tree).stdout
    header = tree / "src_c/one.h"
    stamp = (tree / "build/server").stat().st_mtime + 5
    os.utime(header, (stamp, stamp))
    output = call("make", "build", cwd=tree).stdout
    assert "src_c/server/server.c" in output
    assert "src_c/client/client.c" not in output


def test_flags_are_recorded_and_their_change_recompiles(tree: Path) -> None:
    call("make", "build", cwd=tree)
    flags = json.loads((tree / "build/flags.json").read_text())
    assert "-std=c11" in flags["cflags"]
    assert "-D_GNU_SOURCE" in flags["cppflags"]
    assert flags["version"]
    output = call("make", "build", "OPT=-O0", cwd=tree).stdout
    assert "src_c/client/client.c" in output
    again = json.loads((tree / "build/flags.json").read_text())
    assert "-O0" in again["cflags"]


FRAME = """
#include <sys/resource.h>
static long faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}
__attribute__((noinline)) static int enter(void)
{
    volatile char room[1 << 20];
    room[0] = 1;
    return room[0];
}
int main(void)
{
    long before = faults();
    enter();
    return faults() - before > 16;
}
"""


def test_a_stack_takes_only_the_pages_that_are_used(tree: Path) -> None:
    """With Ubuntu's default, too; else a thread per connection costs its buffers."""
    (tree / "src_c/client/client.c").write_text(FRAME)
    done = call("make", "build", "CC=gcc -fstack-clash-protection", cwd=tree)
    assert done.returncode == 0, done.stderr
    assert ran(tree / "build/client").returncode == 0


def test_warning_is_an_error_in_ci_only(tree: Path) -> None:
    (tree / "src_c/models/two.c").write_text("int two(void) { return 2; }\n")
    assert call("make", "build", cwd=tree).returncode == 0
    assert call("make", "build", cwd=tree, CI="true").returncode != 0


def test_sanitizers_build_beside_the_plain_program(tree: Path) -> None:
    done = call("make", "build", "SAN=undefined", cwd=tree)
    assert done.returncode == 0, done.stderr
    assert (tree / "build/undefined/server").is_file()
    assert not (tree / "build/server").exists()


def test_a_c_test_is_linked_with_the_parts_of_its_program(tree: Path) -> None:
    assert call("make", "c-tests", cwd=tree).returncode == 0
    assert ran(tree / "build/tests/test_one").returncode == 0
    source = "int one(void);\nint one(void) { return 1; }"
    (tree / "src_c/models/one.c").write_text(source)
    assert call("make", "c-tests", cwd=tree).returncode == 0
    assert ran(tree / "build/tests/test_one").returncode == 1


def test_rules_stay_short() -> None:
    rule = longest = 0
    for line in (ROOT / "Makefile").read_text().splitlines():
        rule = rule + 1 if line.startswith(("\t@", "\t\t")) else 0
        longest = max(longest, rule)
    assert longest <= 4  # three lines of shell and a continuation


# ---- what is installed ------------------------------------------------------


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def plain_name(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower().replace("_", "-")


def test_lock_pins_all_that_the_project_asks_for() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, flags=re.M))
    extras = project()["optional-dependencies"].values()
    requirements = [*project()["dependencies"], *(r for extra in extras for r in extra)]
    assert {plain_name(r) for r in requirements} <= pinned


def test_what_notebooks_import_is_no_package_of_tests_alone() -> None:
    """Of environment.yml and the extra `test` the last part may be left out."""
    imports = "".join(path.read_text() for path in ROOT.glob("notebooks/*.ipynb"))
    imported = set(re.findall(r'"(?:import|from) (\w+)', imports))
    assert {"pandas", "statsmodels"} <= imported
    tests = {plain_name(r) for r in project()["optional-dependencies"]["test"]}
    assert not imported & tests


def test_lock_has_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index" not in lock
    blocks = re.split(r"\n(?=\S)", lock.strip())
    assert [b for b in blocks if "--hash=sha256:" not in b] == []


def test_conda_environment_has_all_that_the_project_asks_for() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    present = {plain_name(e) for e in [*listed, *pip] if isinstance(e, str)}
    tests = project()["optional-dependencies"]["test"]
    wanted = {plain_name(r) for r in [*project()["dependencies"], *tests]}
    assert wanted - {"pypandoc-binary", "typst"} <= present
    assert {"quarto", "liburing", "redis-server", "c-compiler"} <= present


def test_conda_environment_has_a_libc_with_all_that_the_servers_call() -> None:
    """Of epoll_pwait2() glibc knows since 2.35; the compiler came with 2.28."""
    source = (ROOT / "src_c" / "common" / "epoll_ns.c").read_text()
    assert "epoll_pwait2(epoll_fd" in source
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert "sysroot_linux-64 >=2.39" in listed


def test_conda_environment_bounds_what_the_project_bounds() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    present = {e.replace(" ", "") for e in listed if isinstance(e, str)}
    tests = project()["optional-dependencies"]["test"]
    bounded = {r for r in [*project()["dependencies"], *tests] if re.search("[<>=]", r)}
    assert {"scipy>=1.12", "pytest<9.2"} <= bounded <= present


@in_repository
def test_no_key_of_a_run_over_hosts_is_taken_for_a_source() -> None:
    """`git add .` took them, and so did the archive of a tree without .git."""
    written = ["hosts.toml", "certificates/worker.key", "certificates/dask.yaml"]
    text = (ROOT / "docs" / "hosts.md").read_text()
    assert "hosts certificates certificates" in text
    assert ran("git", "check-ignore", *written).stdout.split() == written


# ---- tools/setup.sh ---------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with the set-up script and a lock of one package."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/setup.sh", tmp_path / "tools")
    lock = "uv==9999.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"
    (tmp_path / "requirements.lock").write_text(lock)
    return tmp_path


def set_up(place: Path, *words: str, **environ: str) -> subprocess.CompletedProcess:
    options = {"CONNLAB_APT": "no", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""} | environ
    return call("sh", "tools/setup.sh", *(words or ("run",)), cwd=place, **options)


def finished_venv(place: Path) -> None:
    """Make what a finished set-up leaves, from the outside."""
    make = [sys.executable, "-m", "venv", "--without-pip", place / ".venv"]
    subprocess.run(make, check=True)
    (packages,) = (place / ".venv/lib").glob("*/site-packages")
    (packages / "pip.py").write_text("import sys\nsys.exit('--help' not in sys.argv)\n")
    content = (place / "requirements.lock").read_text() + f"{place}\n"
    (place / ".venv/.connlab").write_text(ran("cksum", input=content).stdout)


def test_nothing_is_done_when_the_lock_is_the_same(place: Path) -> None:
    finished_venv(place)
    done = set_up(place)
    assert done.returncode == 0, done.stderr
    assert "Python packages" not in done.stderr


def test_changed_lock_installs_anew_and_failure_is_not_taken_for_done(place):
    finished_venv(place)
    (place / "requirements.lock").write_text("# other\n")
    done = set_up(place)
    assert "into .venv" in done.stderr
    assert done.returncode == 1
    assert ".venv/setup.log" in done.stderr
    assert not (place / ".venv/.connlab").exists()


def test_a_python_that_is_asked_for_may_have_a_space_in_its_path(place: Path) -> None:
    """Another one was taken, without a word."""
    folder = place / "my python"
    folder.mkdir()
    fake(folder, "python", f'touch "{place}/asked"\nexec {sys.executable} "$@"')
    set_up(place, PYTHON=str(folder / "python"))
    assert (place / "asked").exists()


def test_a_python_that_is_asked_for_and_does_not_fit_is_refused(place: Path) -> None:
    """A misspelt one was passed over for another, without a word."""
    done = set_up(place, PYTHON=str(place / "python9"))
    assert done.returncode == 1
    assert f"PYTHON: {place}/python9; allowed: a Python of 3.11 to " in done.stderr
    assert not (place / ".venv").exists()


def test_a_python_that_is_asked_for_replaces_that_of_the_venv(place: Path) -> None:
    """Where there was a .venv another one, or a misspelt one, was passed over."""
    finished_venv(place)
    done = set_up(place, PYTHON=sys.executable)
    assert (done.returncode, done.stderr.count("into .venv")) == (0, 0)
    done = set_up(place, PYTHON=str(place / "python9"))
    assert done.returncode == 1
    assert f"PYTHON: {place}/python9; allowed: a Python of 3.11 to " in done.stderr
    assert (place / ".venv").exists()
    lie = 'case "$2" in *base_prefix*) echo another; exit;; esac'
    fake(place, "other", f'{lie}\nexec {sys.executable} "$@"')
    done = set_up(place, PYTHON=str(place / "other"))
    assert "Python packages into .venv" in done.stderr


def test_a_venv_of_another_python_is_made_anew(place: Path) -> None:
    """An upgrade of the system's Python left one that finds nothing, taken for done."""
    finished_venv(place)
    (packages,) = (place / ".venv/lib").glob("python3.*")
    packages.rename(packages.with_name("python3.0"))
    done = set_up(place, PYTHON=sys.executable)
    assert "Python packages into .venv" in done.stderr
    assert (packages / "site-packages/pip").is_dir()


def test_where_there_is_no_linux_nothing_is_set_up(place: Path) -> None:
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    fake(place / "bin", "uname", "echo Darwin")
    done = set_up(place, PATH=path)
    assert done.returncode == 1
    assert done.stderr.startswith("setup: Darwin: connlab needs Linux")


def test_a_venv_that_was_stopped_while_it_was_made_is_made_anew(place: Path) -> None:
    """Ctrl-C left a Python without pip, and each later set-up said: no network?"""
    make = [sys.executable, "-m", "venv", "--without-pip", place / ".venv"]
    subprocess.run(make, check=True)
    set_up(place, PYTHON=sys.executable)
    assert (place / ".venv/bin/pip").exists()
    assert "No module named pip" not in (place / ".venv/setup.log").read_text()


def test_a_venv_that_has_moved_with_its_folder_is_made_anew(place: Path) -> None:
    """Its activate led to where it had been, and any Python that came was found."""
    old = place / "old"
    (old / "tools").mkdir(parents=True)
    shutil.copy(place / "requirements.lock", old)
    finished_venv(old)
    (packages,) = (old / ".venv/lib").glob("*/site-packages")
    (packages / "connlab.pth").write_text(f"{old}\n")
    (old / ".venv").rename(place / ".venv")
    set_up(place, PYTHON=sys.executable)
    activate = (place / ".venv/bin/activate").read_text()
    assert str(place / ".venv") in activate
    assert str(old / ".venv") not in activate


def test_a_venv_that_is_reached_by_another_path_stays(place: Path) -> None:
    finished_venv(place)
    (packages,) = (place / ".venv/lib").glob("*/site-packages")
    link = place / "link"
    link.symlink_to(place)
    (packages / "connlab.pth").write_text(f"{link}\n")
    (place / ".venv/.connlab").unlink()
    set_up(place, PYTHON=sys.executable)
    assert (packages / "connlab.pth").exists()


@pytest.mark.parametrize("version", ["3.10.2", None])
def test_python_too_old_or_absent_is_said_plainly(place, version):
    path = path_with(place / "bin", *PLAIN)
    if version:
        text = f'[ "$1" = -c ] && exit 1\necho Python {version}'
        fake(place / "bin", "python3", text)
    done = set_up(place, PATH=path)
    assert done.returncode == 1
    assert "Python 3.11 " in done.stderr
    assert (version or "no python3") in done.stderr


def test_missing_system_package_costs_one_line(place: Path) -> None:
    finished_venv(place)
    done = set_up(place, PATH=path_with(place / "bin", *PLAIN, *COMPILER))
    assert done.returncode == 0
    lines = [ln for ln in done.stderr.splitlines() if "redis-server" in ln]
    assert len(lines) == 1
    assert "guestbook" in lines[0]


def test_a_libc_without_what_the_servers_call_is_missing(place: Path) -> None:
    """That of Red Hat 9, with which set-up said nothing and the build ended."""
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    header = place / "sys" / "epoll.h"
    header.parent.mkdir()
    for text, missing in [("int epoll_wait;", True), ("int epoll_pwait2;", False)]:
        header.write_text(f"{text}\n")
        done = set_up(place, PATH=path, CPPFLAGS=f"-I{place}")
        assert done.returncode == 0
        assert ("need glibc 2.35 or later" in done.stderr) is missing


def test_a_compiler_of_several_words_is_one(place: Path) -> None:
    """Of `ccache gcc` the first was called alone, and no compiler was found."""
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    fake(place / "bin", "wrapper", '[ "$1" = gcc ] && exec "$@"')
    header = place / "sys" / "epoll.h"
    header.parent.mkdir()
    header.write_text("int epoll_pwait2;\n")
    done = set_up(place, PATH=path, CPPFLAGS=f"-I{place}", CC="wrapper gcc")
    assert done.returncode == 0
    assert "servers and client" not in done.stderr


def test_a_liburing_without_what_the_models_call_is_missing(place: Path) -> None:
    """That of Ubuntu 22.04: the build left io_uring out, and set-up said nothing."""
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    header = place / "liburing.h"
    for text, missing in [
        ("struct io_uring;", True),
        ("static inline void io_uring_prep_recv_multishot(void) {}", False),
    ]:
        header.write_text(f"{text}\n")
        done = set_up(place, PATH=path, CPPFLAGS=f"-I{place}")
        assert done.returncode == 0
        assert ("missing: liburing-dev" in done.stderr) is missing


@pytest.mark.parametrize(
    ("system", "package"),
    [
        ("ID=debian", "linux-perf"),
        ("ID=ubuntu\nID_LIKE=debian", "linux-tools-6.8.0-1-generic"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"', "linux-tools-6.8.0-1-generic"),
    ],
)
def test_perf_is_of_the_kernel_that_runs_and_has_to_run(place, system, package):
    """Ubuntu's perf is a script that fails where the kernel's own is not there."""
    finished_venv(place)
    script, release = place / "tools/setup.sh", place / "os-release"
    release.write_text(f"{system}\n")
    script.write_text(script.read_text().replace("/etc/os-release", str(release)))
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    fake(place / "bin", "perf", "echo perf not found >&2; exit 2")
    fake(place / "bin", "uname", "echo 6.8.0-1-generic")
    done = set_up(place, PATH=path)
    (line,) = [ln for ln in done.stderr.splitlines() if "system calls per" in ln]
    assert f"(Debian's name: {package})" in line  # there is no apt-get
    fake(place / "bin", "perf", "echo perf version 6.8.12")
    done = set_up(place, PATH=path)
    assert done.returncode == 0
    assert "perf" not in done.stderr + done.stdout


def test_a_package_that_apt_does_not_know_costs_one_call_more(place: Path) -> None:
    """One by one the others took minutes on Ubuntu."""
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER, "env")
    refusing = 'echo "$@" >>asked; case "$*" in *redis-server*) exit 100; esac'
    fake(place / "bin", "apt-get", refusing)
    fake(place / "bin", "apt-cache", '[ "$2" != redis-server ]')
    fake(place / "bin", "id", "echo 0")
    set_up(place, PATH=path, CONNLAB_APT="yes")
    lines = (place / "asked").read_text().splitlines()
    first, again = (line for line in lines if "install" in line)
    assert again == first.replace(" redis-server", "")


def test_apt_is_told_the_proxy_that_sudo_would_forget(place: Path) -> None:
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER, "env", "true")
    fake(place / "bin", "apt-get", 'echo "$1 by ${http_proxy:-none}" >>asked')
    fake(place / "bin", "id", "echo 1000")
    fake(place / "bin", "sudo", 'shift; exec env -i "PATH=$PATH" "$@"')
    proxy = "http://proxy.example:3128"
    set_up(place, PATH=path, CONNLAB_APT="yes", http_proxy=proxy)
    assert f"install by {proxy}" in (place / "asked").read_text().splitlines()


def test_sudo_is_asked_once_as_apt_is(place: Path) -> None:
    """Who may not use it was reported to the administrator by each call of make."""
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER)
    fake(place / "bin", "apt-get", "exit 100")
    fake(place / "bin", "id", "echo 1000")
    fake(place / "bin", "sudo", "echo sudo >>asked; exit 1")
    for _ in range(3):
        set_up(place, PATH=path, CONNLAB_APT="yes")
    assert (place / "asked").read_text() == "sudo\n"


def test_apt_is_asked_once_and_again_on_request(place: Path) -> None:
    finished_venv(place)
    path = path_with(place / "bin", *PLAIN, *COMPILER, "env")
    fake(place / "bin", "apt-get", 'echo "$@" >>asked')
    fake(place / "bin", "id", "echo 0")
    log = place / "asked"
    set_up(place, PATH=path, CONNLAB_APT="yes")
    assert "install" in log.read_text()
    assert "redis-server" in log.read_text()
    log.unlink()
    set_up(place, PATH=path, CONNLAB_APT="yes")
    assert not log.exists()
    set_up(place, "run", "--retry", PATH=path, CONNLAB_APT="yes")
    assert log.exists()


def test_unknown_word_prints_the_usage(place: Path) -> None:
    done = set_up(place, "walk")
    assert done.returncode == 2
    assert "sh tools/setup.sh run" in done.stdout


# ---- what README.md and CONTRIBUTING.md say ---------------------------------

TEXTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in DOCS)]


@pytest.mark.parametrize("name", TEXTS)
def test_links_and_pictures_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)", prose)
    local = [target for target in targets if "://" not in target]
    here = (ROOT / name).parent
    assert [target for target in local if not (here / target).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_paths_that_are_named_exist(name: str) -> None:
    top = "src_c|connlab|notebooks|tests|tools|paper|runs"
    named = re.findall(rf"`((?:{top})/[\w./-]+)`", (ROOT / name).read_text())
    outputs = ("paper/_output", "runs/name", "runs/course-", "notebooks/NN-name")
    kept = [path for path in named if not path.startswith(outputs)]
    assert [path for path in kept if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_commands_that_are_named_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    makefiles = [ROOT / "Makefile", *ROOT.glob("src_c/*/*.mk")]
    rules = "".join(path.read_text() for path in makefiles)
    targets = re.findall(r"^([a-z-]+):", rules, flags=re.M)
    assert set(re.findall(r"[`$] ?make ([a-z-]+)", text)) <= set(targets)
    commands = re.findall(r"python -m connlab ([a-z-]+)", text)
    assert set(commands) <= set(__main__.cli.commands)


def test_readme_says_how_long_a_paper_takes_as_its_profile_does() -> None:
    text, about = (ROOT / "README.md").read_text(), profiles.load("quick").about
    assert f"paper: profile quick ({about})" in text
    assert f"every study in {about.removeprefix('the paper in ')}, and" in text
    cost = paper.plan(profiles.load("quick"))
    total = progress.duration_text(paper.left_s(cost, {}))
    assert f"paper: {len(cost)} notebooks, about {total}\n" in text


#: the source and the row of a model
SHOWN = shown("c", "prethread_run"), shown("c", "MODEL(prethread")


def test_contributing_shows_a_model_as_it_is() -> None:
    source, row = SHOWN
    assert (ROOT / "src_c/models/prethread.c").read_text().endswith(source)
    assert row in (ROOT / "src_c/models.def").read_text()


def test_a_file_and_a_row_make_a_model(build_dir: Path, tmp_path: Path) -> None:
    """What does not depend on the row is taken as it was compiled."""
    source, row = (text.replace("prethread", "another") for text in SHOWN)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in ("src_c", "build/obj"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy2(build_dir / "flags.json", tmp_path / "build")
    (tmp_path / "src_c/models/another.c").write_text(source)
    table = tmp_path / "src_c/models.def"
    table.write_text(table.read_text() + row)
    ci = os.environ.get("CI", "")
    done = call("make", "build/server", cwd=tmp_path, CI=ci)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    listed = call("build/server", "--list", cwd=tmp_path)
    names = [model["name"] for model in json.loads(listed.stdout)["models"]]
    assert "another" in names
