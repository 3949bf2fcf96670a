"""What a docker run asks for."""

from typing import NamedTuple


class Bind(NamedTuple):
    """One folder or file of the node inside the container."""

    source: str
    inside: str
    must_exist: bool
    """Whether docker refuses a source that is not there, as of --mount; of -v it makes an empty folder."""


class Asked(NamedTuple):
    """What one docker run asks for."""

    options: dict[str, list[str]]
    image: str
    argv: tuple[str, ...]

    def last(self, option: str, otherwise: str = "") -> str:
        """Return an option's last value, which is the one that counts."""
        return self.options.get(option, [otherwise])[-1]

    def pairs(self, option: str) -> dict[str, str]:
        """Return KEY=VALUE options; a later one wins."""
        return {text.partition("=")[0]: text.partition("=")[2] for text in self.options.get(option, [])}

    def environment(self) -> dict[str, str]:
        """Return the variables of --env-file and --env; the latter win, as docker has it."""
        lines = [line for name in self.options.get("--env-file", []) for line in _lines(name)]
        return {text.partition("=")[0]: text.partition("=")[2] for text in lines} | self.pairs("--env")

    @property
    def binds(self) -> tuple[Bind, ...]:
        """Every bind, of -v and of --mount; volumes with a name are none."""
        short = [text.split(":") for text in self.options.get("--volume", [])]
        long = [_fields(text) for text in self.options.get("--mount", [])]
        return (
            *(
                Bind(one[0], one[1], must_exist=False)
                for one in short
                if one[0].startswith("/") and len(one) > 1
            ),
            *(
                Bind(
                    one.get("source", one.get("src", "")),
                    one.get("target", one.get("dst", "")),
                    must_exist=True,
                )
                for one in long
                if one.get("type") == "bind"
            ),
        )

    def outside(self, inside: str) -> str:
        """Return where on the node a path of the container lies; empty when no bind covers it."""
        for bind in self.binds:
            if f"{inside}/".startswith(f"{bind.inside.rstrip('/')}/"):
                return bind.source.rstrip("/") + inside[len(bind.inside.rstrip("/")) :]
        return ""


def _lines(name: str) -> list[str]:
    with open(name, encoding="utf-8") as file:  # noqa: PTH123 - see rehearsal/containers.py on imports
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def _fields(text: str) -> dict[str, str]:
    """Return the fields of --mount; a quoted cell with a comma is beyond what a practice node is asked."""
    return {name: value for name, _, value in (cell.strip('"').partition("=") for cell in text.split(","))}
