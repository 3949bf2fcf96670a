"""Software and files: the image, its tools, the model's shards, and what a log must not hold."""

from launcher.troubles.trouble import Lines, Told, Trouble, compiled, every, has, worded

_EXEC = compiled(r"\bexec (?P<program>/\S+): exec format error")
_EXEC_SIGN = compiled(r"(?i)\bexec format error")
_PLATFORM = compiled(
    r"platform \((?P<image>linux/[a-z0-9/]+)\) does not match the detected host platform \((?P<node>linux/[a-z0-9/]+)\)"
)

_HEADER = compiled(r"SafetensorError: Error while deserializing header")
_PROGRESS = compiled(r"checkpoint shards:.*\| (?P<done>[0-9]{1,5})/(?P<all>[0-9]{1,5}) \[")

KEY = compiled(
    r"""(?:['"]api_key['"]\s*:\s*|--api-key[ =])(?!\s*(?:API_KEY|None|null|\[\s*\]|''|""|\[None\]))\s*[\['"]*(?=[^\s\]'",}])"""
)
"""A start line that shows the API key; it is among the first lines of a log."""

_STATUS_LINE = compiled(r"^HTTP/[0-9.]+ (?P<code>401)\b")
_ACCESS = compiled(r'"(?P<verb>[A-Z]{3,7}) (?P<path>/\S*) HTTP/[0-9.]+" (?P<code>401)\b')


def _architecture(lines: Lines) -> Told | None:
    if not has(_EXEC_SIGN, lines):
        return None
    ran = every(_EXEC, lines)
    program = f" ({ran[0]['program']} did not start)" if ran else ""
    hint = "pull or build the image for linux/arm64 on every node; sparkctl check reads its architecture before a boot"
    for found in every(_PLATFORM, lines):
        return Told(
            said=f"the image is for {found['image']} and the node is {found['node']}{program}",
            hint=hint,
        )
    return Told(said=f"the image holds programs of another architecture than the node's{program}", hint=hint)


def _shard(lines: Lines) -> Told | None:
    at = next((index for index, line in enumerate(lines) if _HEADER.search(line)), None)
    if at is None:
        return None
    progress = every(_PROGRESS, lines[:at])
    figures = {"done": float(progress[-1]["done"]), "shards": float(progress[-1]["all"])} if progress else {}
    where = f" after {progress[-1]['done']} of {progress[-1]['all']} shards" if progress else ""
    return Told(
        said=f"a safetensors header could not be read{where}",
        hint="compare sizes and hashes of the model files on this node with the others' (sparkctl check). Where they match, a new "
        "download changes nothing: it is the loader or memory, so try another args.load-format or "
        "args.safetensors-load-strategy",
        figures=figures,
    )


def _key(lines: Lines) -> Told | None:
    if not has(KEY, lines):
        return None
    return Told(
        said="the engine's start line shows the API key, to everyone who reads this log or the process list",
        hint="give the key as VLLM_API_KEY in the environment, from a file of mode 0600, not as a flag; and replace this one",
    )


def _locked(lines: Lines) -> Told | None:
    asked = every(_ACCESS, lines)
    if asked:
        what = f"{asked[0]['verb']} {asked[0]['path']}"
        return Told(
            said=f"the API is up and refused {what} without a valid key ({asked[0]['code']})", hint=_WITH_KEY
        )
    if shown := every(_STATUS_LINE, lines):
        return Told(
            said=f"the API is up and refused a request without a valid key ({shown[0]['code']})",
            hint=_WITH_KEY,
        )
    return None


_WITH_KEY = "waiting longer changes nothing: ask /health, which needs no key, or ask with the key"

WRONG = (
    # The line serves, and what it says is wrong.
    Trouble(
        name="engram-unusable",
        read=worded(
            r"[Ee]ngram.*\bunusable\b",
            exact=(
                (
                    r"[Ee]ngram (?P<what>layer [0-9]{1,3})\b.*\bunusable\b",
                    "the Engram table of {what} cannot be read on this rank",
                ),
            ),
            plain="an Engram table cannot be read on this rank",
            hint="its rows are served as zeros, without an error: look at the mount of the node-local Engram files on this node and at "
            "their manifest, then boot anew",
        ),
        source="tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks (reported)",
    ),
)

TROUBLES = (
    Trouble(
        name="wrong-architecture",
        read=_architecture,
        source="mmartial/ComfyUI-Nvidia-Docker#96; opendatalab/MinerU#4350 (reported)",
    ),
    Trouble(
        name="ptxas-too-old",
        read=worded(
            r"(?:'sm_[0-9]+[a-z]?' is not defined for option 'gpu-name'|PTXAS error: Internal Triton PTX codegen error)",
            exact=(
                (
                    r"'(?P<target>sm_[0-9]{2,4}[a-z]?)' is not defined for option 'gpu-name'",
                    "the ptxas that Triton calls does not know {target}",
                ),
            ),
            plain="the ptxas that Triton calls refused its code",
            hint="set TRITON_PTXAS_PATH in env, on every rank, to a ptxas that knows the GPU: that of CUDA 13 in the image, such as "
            "/usr/local/cuda/bin/ptxas",
        ),
        source="calico88x/DGX-Model-Manager#1 (reported)",
    ),
    Trouble(
        name="gpu-not-released",
        read=worded(
            r"(?:Can't initialize NVML|Triton is installed but 0 active driver)",
            plain="the GPU was not there when the engine started: most often it was not yet released by what ran before",
            hint="the image is not broken, even where vllm._C is missed next: wait until nvidia-smi names no compute process on this "
            "node, then boot once more; if it happens again, look at the driver (nvidia-smi on the node)",
        ),
        source="getainode/ainode PR#63 (reported)",
    ),
    Trouble(
        name="disk-full",
        read=worded(
            r"(?i)no space left on device",
            exact=(
                (
                    r"\bwrite (?P<path>/[^\s:]+): (?i:no space left on device)",
                    "no space was left for {path}",
                ),
            ),
            plain="no space was left on a device",
            hint="make room, or copy an image as a stream over the fabric (sparkctl images sync) and not through a file "
            "in /tmp; the node still holds the old image: sparkctl check compares the layers",
        ),
        source="eugr/spark-vllm-docker#339 (reported)",
    ),
    Trouble(
        name="model-path-absent",
        read=worded(
            r"Repo id must be in the form",
            exact=(
                (
                    r"'namespace/repo_name': '(?P<path>/[^']+)'",
                    "{path} does not exist inside the container of this rank",
                ),
            ),
            plain="the model is no folder inside the container of this rank, and no name of a repository either",
            hint="look at container.mounts on this node: docker makes an empty folder of a source that is not there, and a symbolic "
            "link must not leave the mounted folder",
        ),
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#20; "
        "MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks#14 (reported)",
    ),
    Trouble(name="shard-unreadable", read=_shard, source="eugr/spark-vllm-docker#275 (reported)"),
)

WARNINGS = (
    Trouble(
        name="key-in-log",
        read=_key,
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR#30; tenstorrent/tt-inference-server PR#874 (reported)",
        kind="warning",
    ),
)

NOTES = (
    Trouble(
        name="api-wants-key",
        read=_locked,
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark PR#64 (reported)",
        kind="information",
    ),
)
