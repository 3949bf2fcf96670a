"""Where playbooks, recipes and images lie: inside the installed package, or in the checkout beside it."""

from pathlib import Path

from sparkctl.errors import FileFault
from sparkctl.nearest import nearest

_PACKED = Path(__file__).parent / "_content"
_CHECKOUT = Path(__file__).parent.parent


def root() -> Path:
    """Return the folder that holds `playbooks/`, `recipes/`, `images/` and `inventory.example.yml`."""
    return _PACKED if _PACKED.is_dir() else _CHECKOUT


def playbook(name: str) -> Path:
    """Return the path of a playbook by its name without ending."""
    return root() / "playbooks" / f"{name}.yml"


def recipe(name: str) -> Path:
    """Return the recipe file that `name` means: a path if it looks like one, else `recipes/<name>.yml`."""
    return _named(name, "recipes", "recipe")


def recipes() -> tuple[str, ...]:
    """Return the names of the recipes that ship."""
    return tuple(sorted(found.stem for found in (root() / "recipes").glob("*.yml")))


def ladder(name: str) -> Path:
    """Return the ladder file that `name` means: a path if it looks like one, else `recipes/ladders/<name>.yml`."""
    return _named(name, "recipes/ladders", "ladder")


def prompts(name: str) -> Path:
    """Return the workload file that `name` means: a path, else `recipes/prompts/<name>.yml`."""
    return _named(name, "recipes/prompts", "workload")


def agents(name: str) -> Path:
    """Return the file of agents' sessions that `name` means: a path, else `recipes/agents/<name>.yml`."""
    if name.endswith((".json", ".jsonl")):
        return Path(name)
    return _named(name, "recipes/agents", "workload of agents")


def hardware(name: str) -> Path:
    """Return the file of a GPU that `name` means: a path, else `recipes/hardware/<name>.yml`."""
    return _named(name, "recipes/hardware", "hardware")


def model(name: str) -> Path:
    """Return the file of a model that `name` means: a path, else `recipes/models/<name>.yml`."""
    return _named(name, "recipes/models", "model")


def models() -> tuple[str, ...]:
    """Return the names of the models that ship."""
    return tuple(sorted(found.stem for found in (root() / "recipes" / "models").glob("*.yml")))


def tensors(name: str) -> Path:
    """Return the inventory of tensors that `name` means: a path, else `recipes/models/tensors/<name>.yml`."""
    return _named(name, "recipes/models/tensors", "inventory")


def quality(name: str) -> Path:
    """Return the battery file that `name` means: a path, else `recipes/quality/<name>.yml`."""
    return _named(name, "recipes/quality", "battery")


def history(name: str) -> Path:
    """Return the file of others' figures that `name` means: a path, else `recipes/history/<name>.csv`."""
    if "/" in name or name.endswith((".csv", ".json")):
        return Path(name)
    path = root() / "recipes" / "history" / f"{name}.csv"
    if path.is_file() or Path(name).exists():
        return path if path.is_file() else Path(name)
    known = histories()
    raise FileFault(
        f"history {name!r} is not one that ships with sparkctl: {', '.join(known)}{nearest(name, known)}",
        hint="name one of these, or give a path to a CSV file or a bench result of your own",
    )


def histories() -> tuple[str, ...]:
    """Return the names of the files of others' figures that ship."""
    return tuple(sorted(found.stem for found in (root() / "recipes" / "history").glob("*.csv")))


def image(name: str) -> Path:
    """Return the manifest that `name` means: a path if it looks like one, else `images/<name>/image.yml`."""
    if "/" in name or name.endswith((".yml", ".yaml")):
        return Path(name)
    if name in images():
        return root() / "images" / name / "image.yml"
    raise FileFault(
        f"image {name!r} is not one that ships with sparkctl: {', '.join(images())}{nearest(name, images())}",
        hint="name one of these, or give a path to an image.yml of your own",
    )


def images() -> tuple[str, ...]:
    """Return the names of the images whose build ships."""
    return tuple(sorted(found.parent.name for found in (root() / "images").glob("*/image.yml")))


def engines() -> dict[str, Path]:
    """Return the files with what each known version of an engine accepts, by `<kind>-<version>`."""
    return {path.stem: path for path in sorted((root() / "recipes" / "engines").glob("*.yml"))}


def _named(name: str, folder: str, noun: str) -> Path:
    if "/" in name or name.endswith((".yml", ".yaml", ".json")):
        return Path(name)
    path = root() / folder / f"{name}.yml"
    if path.is_file():
        return path
    known = sorted(found.stem for found in (root() / folder).glob("*.yml"))
    raise FileFault(
        f"{noun} {name!r} is not one that ships with sparkctl: {', '.join(known)}{nearest(name, known)}",
        hint=f"name one of these, or give a path to a {noun} file of your own",
    )
