# Sourced by scripts/check and scripts/demo: finds Python, makes .venv, installs the project into it.
# Gives ROOT, VENV and PATH with the environment's tools in front. Needs bash; works from any folder, without stdin.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VENV=${SPARKCTL_VENV:-$ROOT/.venv}

# Tests and demo start hundreds of verbs: where Python may not keep what it has compiled, it compiles all of sparkctl each time.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }

# give_up WHAT HINT: used wrongly or not installable from here.
give_up() {
    say "error: $1"
    say ""
    say "hint: $2"
    exit 2
}

# Debian's own package is installed where we may, and named where we may not.
debian_package() {
    local package=$1 why=$2
    if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
        say "installing $package ($why)"
        apt-get update -qq </dev/null >&2 &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" </dev/null >&2 &&
            return
    fi
    give_up "$why" "install the Debian package $package: sudo apt-get install $package"
}

# hosts_packages: what rehearsal/hosts needs beyond pip: sshd, ping, ip and ps; buildah with a static busybox, with which the
# serving image is built on a stand-in base; and chromium, which lays the report out. Without them these tests are skipped with the reason (and fail under CI=true), so
# nothing is given up here.
hosts_packages() {
    local missing=() policy=/usr/sbin/policy-rc.d made=""
    PATH=$PATH:/usr/sbin:/sbin command -v sshd >/dev/null || missing+=(openssh-server)
    command -v ping >/dev/null || missing+=(iputils-ping)
    PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null && command -v ss >/dev/null || missing+=(iproute2)
    command -v ps >/dev/null || missing+=(procps)
    command -v buildah >/dev/null || missing+=(buildah)
    command -v busybox >/dev/null || missing+=(busybox-static)
    command -v chromium >/dev/null || missing+=(chromium)
    [[ ${#missing[@]} -gt 0 ]] || return 0
    # Where systemd runs, Debian would enable its ssh service and open port 22 for good: that is the owner's to decide.
    if [[ $(id -u) -ne 0 || -d /run/systemd/system ]] || ! command -v apt-get >/dev/null; then
        say "tests/hosts, the image on a stand-in base and the report in a browser are skipped without: ${missing[*]} (sudo apt-get install ${missing[*]})"
        return 0
    fi
    say "installing ${missing[*]} (for tests/hosts, the image on a stand-in base and the report in a browser)"
    [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=yes; }
    apt-get update -qq </dev/null >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2 ||
        say "apt-get could not install them; the tests say what is missing"
    [[ -z $made ]] || rm -f "$policy"
}

# Prints the newest Python from 3.11 to 3.13; shims of a version manager that lead nowhere are passed over.
newest_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

make_venv() {
    local python package
    python=$(newest_python) || { debian_package python3 "no Python from 3.11 to 3.13 was found" && python=$(newest_python); } ||
        give_up "no Python from 3.11 to 3.13 was found" "install one of them, for instance python3.12"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        debian_package "$package" "$python has no venv module"
    fi
    say "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV" || give_up "$python could not make $VENV" "read the error above"
}

# What was installed is remembered as a digest of pyproject.toml and of the interpreter.
stamp() { { cat "$ROOT/pyproject.toml" && "$VENV/bin/python" --version; } | sha256sum | cut -d' ' -f1; }

# setup [GROUP]: makes or refreshes the environment, with a dependency group if one is named.
setup() {
    local group=${1:-} mark
    cd "$ROOT" || exit 2
    command -v ssh >/dev/null && command -v ssh-keygen >/dev/null ||
        debian_package openssh-client "the ssh client is missing"
    "$VENV/bin/python" -c 'import pip' 2>/dev/null || make_venv
    mark=$VENV/.sparkctl-${group:-core}
    if [[ $(cat "$mark" 2>/dev/null) != "$(stamp)" ]]; then
        say "installing sparkctl into $VENV"
        # Dependency groups came with pip 25.1.
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' </dev/null >&2 &&
            "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
                --editable "$ROOT" ${group:+--group "$group"} </dev/null >&2 ||
            give_up "pip could not install sparkctl into $VENV" "a package index must be reachable; read pip's words above"
        stamp >"$mark"
    fi
    export PATH="$VENV/bin:$PATH"
}
