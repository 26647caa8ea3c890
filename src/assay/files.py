"""Writes files whole, finds files that all sites share, and reads YAML strictly.

What another person wrote is bounded before it is parsed, so no file of theirs takes all memory, or
never ends. The shape of a kind of YAML file is a type that msgspec knows, most often a class of
``msgspec.Struct``. :func:`read_shape` refuses every other content, by one line.
"""

from __future__ import annotations

import difflib
import errno
import functools
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Collection, Hashable, Iterator
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

if TYPE_CHECKING:
    import jinja2

T = TypeVar("T")

#: What to do if the file that a command was to write cannot be written.
ELSEWHERE = "; name another place with --output FILE"
#: The largest file of JSON, and of YAML [B]. Python takes 4 B for a character that is not ASCII.
MOST_OF_JSON, MOST_OF_YAML = 3 << 24, 1 << 20
#: The most values of JSON: 10,000 cases have a million. The most lines and entries of YAML, and the
#: most nodes in it once each alias is what it stands for.
MOST_VALUES, MOST_LINES, MOST_NODES = 1 << 21, 40_000, 1 << 17

#: How deeply a text may seem nested that libyaml reads.
MOST_DEPTH = 2000

#: What a wheel carries of the suite beside the library: see ``setup.py``.
CARRIED = Path(__file__).with_name("suite")

#: The folder with ``reframe/`` and ``site-config/``: that of the wheel, else the checkout.
SUITE = CARRIED if CARRIED.is_dir() else Path(__file__).parents[2]


def read_bytes(path: Path, most: int, flags: int = 0) -> bytes:
    """The content of a regular file: one that ends, and never lets its reader wait.

    :param flags: more flags of open(2), such as ``os.O_NOFOLLOW``.
    :raises OSError: it cannot be read, is a pipe or a device, or has more than `most` bytes.
    """

    def opener(name: str, given: int) -> int:
        return os.open(name, given | os.O_NONBLOCK | flags)

    with open(path, "rb", opener=opener) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than {most} B", str(path))
    return content


def read_json(path: Path, clean_texts: bool = False) -> Any:
    """The content of a file of JSON.

    :param clean_texts: make all texts and keys clean, as :func:`clean` does.
    :raises OSError: as :func:`read_bytes`.
    :raises ValueError: it is not JSON in UTF-8, or is larger or deeper than one of a run.
    """
    raw = read_bytes(path, MOST_OF_JSON)
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values > MOST_VALUES or (not raw.isascii() and len(raw) > MOST_OF_JSON // 4):
        raise ValueError(f"{path}: has more than {MOST_VALUES} values, or too much text")
    try:
        content = json.loads(raw.decode())
        # What is not seen is not ASCII, or DEL, or an escape.
        may_hide = not raw.isascii() or b"\x7f" in raw or _ESCAPE.search(raw)
        return _cleaned(content) if clean_texts and may_hide else content
    except RecursionError:
        raise ValueError(f"{path}: is nested too deeply") from None


def _cleaned(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {clean(str(key)): _cleaned(value) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_cleaned(value) for value in raw]
    return clean(raw) if isinstance(raw, str) else raw


def nearest(word: str, known: Collection[str]) -> str:
    """What to write in place of a word that is not known."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(sorted(known))


def read_shape(
    path: Path, kind: type[T], refusal: type[Exception], shown: object = None, hint: str = ""
) -> T:
    """The content of a YAML file in its shape.

    :param kind: the shape; arguments are otherwise as for :func:`read_yaml`.
    :raises refusal: as :func:`read_yaml`, or the content has another shape. The message names the
        file, the key, what is wrong and, for an unknown key, the nearest known one.
    """
    content = read_yaml(path, refusal, shown, hint)
    if fault := misshapen(content, kind):
        raise refusal(f"{path if shown is None else shown}: {fault}")
    return msgspec.convert(content, kind)


def own(module: str, kind: type[T], name: str = "") -> T:
    """The content of a YAML file beside a module of this package, by default that of its name.

    :param module: its ``__file__``; `kind` is as for :func:`read_shape`.
    """
    path = Path(module)
    return read_shape(path.with_name(name) if name else path.with_suffix(".yaml"), kind, ValueError)


def misshapen(content: Any, kind: Any, where: str = "") -> str:
    """The first fault of a content against its shape, with its key; empty if it has none.

    :param where: the key of the content.
    """
    try:
        msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        # msgspec does not name the keys of a mapping, so its parts are looked at one by one.
        for key, part, of in _parts(content, kind):
            if fault := misshapen(part, of, f"{where}/{key}".lstrip("/")):
                return fault
        return _fault(str(error).partition(" - at `")[0], content, kind, where)
    except UnicodeEncodeError:
        return f"{where or '(top level)'}: a key is no text in UTF-8; write it unescaped"
    return ""


def _fault(said: str, content: Any, kind: Any, where: str) -> str:
    if unknown := re.match(r"Object contains unknown field `(.*)`", said):
        structs = [each for each in _alternatives(kind) if _is_struct(each)]
        known = [field.encode_name for each in structs for field in msgspec.structs.fields(each)]
        where = f"{where}/{unknown[1]}".lstrip("/")
        said = f"unknown key; {nearest(unknown[1], known)}"
    elif missing := re.match(r"Object missing required field (`.*`)", said):
        said = f"{missing[1]} is missing"
    elif said.startswith("Expected"):
        said = f"{repr(content)[:60]}: e{said[1:].partition(' matching regex ')[0]}"
        said = re.sub(r"`(\w+(?: \| \w+)*)`", _in_words, said)
    elif said.startswith("Invalid enum value"):
        known = [value for each in _alternatives(kind) for value in get_args(each)]
        said = f"{content!r} is not known; {nearest(str(content), [*map(str, known)])}"
    else:  # a class of ours refused it
        return f"{where or '(top level)'}: {said}"
    about = "; ".join(filter(None, dict.fromkeys(_remarks(kind))))
    return f"{where or '(top level)'}: {said}" + (f" ({about})" if about else "")


#: What msgspec calls a kind of value -> what YAML calls it.
_KINDS = {"array": "a list", "object": "a mapping", "str": "a text", "null": "nothing"}
_KINDS |= {"int": "a whole number", "float": "a number", "bool": "true or false"}


def _in_words(kinds: re.Match[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds[1].split(" | "))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _alternatives(kind: Any) -> Iterator[Any]:
    """The types that a type allows: those of a union, without remarks about them."""
    if get_origin(kind) in (Union, UnionType, Annotated):
        for each in get_args(kind):
            yield from _alternatives(each)
    else:
        yield kind


def _remarks(kind: Any) -> Iterator[str | None]:
    for each in _alternatives(kind):
        if isinstance(each, msgspec.Meta):
            yield each.description
        elif _is_struct(each):
            yield " ".join((each.__doc__ or "").split("\n\n")[0].split())


def _parts(content: Any, kind: Any) -> Iterator[tuple[Any, Any, Any]]:
    for each in _alternatives(kind):
        of = get_args(each)
        if isinstance(content, dict) and _is_struct(each):
            for field in msgspec.structs.fields(each):
                if field.encode_name in content:
                    yield field.encode_name, content[field.encode_name], field.type
        elif isinstance(content, dict) and get_origin(each) is dict:
            yield from ((key, key, of[0]) for key in content)
            yield from ((key, part, of[1]) for key, part in content.items())
        elif isinstance(content, list) and get_origin(each) in (list, tuple):
            yield from ((at, part, of[0]) for at, part in enumerate(content))


def read_yaml(
    path: Path,
    refusal: type[Exception],
    shown: object = None,
    hint: str = "",
    strict: bool = True,
) -> Any:
    """The content of a YAML file.

    YAML 1.1 silently changes some texts: of two equal keys the last one counts, ``010`` is 8,
    ``1:30`` is 90, ``no`` is false, and ``.inf`` is a number. This function refuses them. It reads
    ``1e3`` as a number and refuses ``0o17``. YAML 1.2, which Spack reads, therefore gives every
    accepted text the same meaning.

    :param refusal: the error to raise; its message is one line with the file and the line.
    :param shown: how messages name the file, if not by its path.
    :param hint: what the message adds if the file cannot be read.
    :param strict: False accepts these texts, and None stands for a template of Jinja: it is for a
        file that ReFrame reads itself.
    :raises refusal: the file cannot be read, is not YAML in UTF-8, is larger than any that a person
        writes, or contains one of these texts.
    """
    name = path if shown is None else shown
    try:
        raw = read_bytes(path, MOST_OF_YAML)
        if sum(map(raw.count, (b"\n", b"\r", b",", b"[", b"{"))) > MOST_LINES:
            raise OSError(errno.EFBIG, f"has more than {MOST_LINES} lines and entries; split it")
        if not strict and (b"{{" in raw or b"{%" in raw):
            return None
        return _loaded(raw.decode(), _Strict if strict else _Bounded)
    except OSError as error:
        raise refusal(f"{name}: {error.strerror}{hint}") from None
    except UnicodeDecodeError:
        raise refusal(f"{name}: not a text in UTF-8") from None
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError) as error:
        # PyYAML: a key that is a list, a date that does not exist, a tag on a wrong text.
        raise refusal(f"{name}: is not valid YAML: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or "it has a character that YAML does not allow"
        invalid = "" if isinstance(error, _Refused) else " is not valid YAML"
        raise refusal(f"{name}:{where}{invalid}: {what}") from None


class _Refused(yaml.constructor.ConstructorError):
    """A text that YAML accepts and this project does not."""


class _Bounded(yaml.SafeLoader):
    def construct_document(self, node: yaml.Node) -> Any:
        if self._size(node, {}) > MOST_NODES:
            self._refuse(node, f"its aliases make more than {MOST_NODES} values; write fewer")
        return super().construct_document(node)

    def _size(self, node: Any, known: dict[int, float]) -> float:
        """How many nodes a node is with all that its aliases stand for; infinite in a circle."""
        if id(node) not in known:
            known[id(node)] = math.inf
            below = [] if isinstance(node, yaml.ScalarNode) else node.value
            parts = (part for each in below for part in (each if type(each) is tuple else [each]))
            known[id(node)] = 1 + sum(self._size(part, known) for part in parts)
        return known[id(node)]

    def _refuse(self, node: yaml.Node, what: str) -> None:
        raise _Refused(None, None, what, node.start_mark)


class _Strict(_Bounded):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                self._refuse(key, f"key {key.value!r} appears twice; keep one of them")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


#: Tag of YAML 1.1 -> what a text of it looks like here, and what any other one is.
_PLAIN = {
    "int": (r"[-+]?(0|[1-9]\d*)", "is not decimal; write it in decimal"),
    "float": (
        r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?",
        "is not a decimal number; write it in decimal",
    ),
    "bool": ("true|false|True|False", "would be true or false; write true or false"),
}


def _plain(loader: _Strict, node: yaml.Node) -> Any:
    kind = node.tag.rpartition(":")[2]
    pattern, mend = _PLAIN[kind]
    if not re.fullmatch(pattern, node.value):
        loader._refuse(node, f"{node.value!r} {mend}, or quote it")
    return getattr(loader, f"construct_yaml_{kind}")(node)


class _Composer(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Makes the nodes of a text, where PyYAML has libyaml: in a tenth of the time."""


#: What libyaml may read and PyYAML refuses: a tab; a question mark that begins a line, or is in
#: brackets.
_OTHERWISE = re.compile(r"\t|^\s*\?|^(?=.*[][{},]).*\?", re.MULTILINE)


def _loaded(text: str, loader: type[_Bounded]) -> Any:
    """What a text says, on each machine the same.

    libyaml crashes on what is nested too deeply, and a level takes a column of a line or a bracket.
    It accepts tabs, and question marks in brackets, that PyYAML refuses. Its messages are others.
    """
    deepest = max(text.count("[") + text.count("{"), *map(len, text.split("\n")))
    if loader is _Strict and deepest <= MOST_DEPTH and not _OTHERWISE.search(text):
        try:
            node = yaml.compose(text, _Composer)
        except (yaml.YAMLError, ValueError):
            pass
        else:
            return None if node is None else loader("").construct_document(node)
    return yaml.load(text, loader)  # noqa: S506 - SafeLoaders


for _tag in _PLAIN:
    _Strict.add_constructor(f"tag:yaml.org,2002:{_tag}", _plain)

# YAML 1.1 reads these numbers of YAML 1.2 as texts.
for _tag, _text in (("float", r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), ("int", "0o[0-7]+$")):
    for _loader in (_Strict, _Composer):
        _loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(_text), list("-+.0123456789")
        )


def repository(site: Path) -> Path:
    """The root of the repository that a site is in, in any folder: it has the vocabulary.

    :param site: the folder of one site; outside of any repository, the root is :data:`SUITE`.
    """
    above = site.resolve().parents
    return next((f for f in above if (f / "site-config/vocabulary.yaml").is_file()), SUITE)


def of_all_sites(site: Path, name: str) -> Path:
    """A file that all sites share: beside the folder `site`, else in ``site-config/``."""
    places = (site.parent / name, repository(site) / "site-config" / name)
    return next((path for path in places if path.exists()), SUITE / "site-config" / name)


def layered(site: Path, name: str, kind: type[T], refusal: type[Exception]) -> T:
    """The content of the file of all sites, of which that of the site changes keys, at any depth.

    :param kind: the shape of the whole, see :func:`read_shape`.
    :raises refusal: a file cannot be read, or with it the whole does not have its shape.
    """
    content: Any = None
    for path in (of_all_sites(site, name), site / name):
        if content is None or path.exists():
            content = changed(content, read_yaml(path, refusal))
            if fault := misshapen(content, kind):
                raise refusal(f"{path}: {fault}")
    return msgspec.convert(content, kind)


def changed(old: Any, new: Any) -> Any:
    """A mapping with the keys of another one added, at any depth; another content is replaced."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{key: changed(old.get(key), value) for key, value in new.items()}}


def write_file(
    path: Path, content: str | bytes, refusal: type[Exception] | None = None, mend: str = ""
) -> None:
    """Write a whole file, or leave the old one as it was; the umask sets who may read it.

    :param content: text is written as UTF-8.
    :param refusal: the error to raise in place of OSError; its message is one line.
    :raises OSError: the file cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if refusal is None or not isinstance(error, OSError):
            raise
        raise refusal(f"{path}: cannot be written ({error.strerror}){mend}") from None


#: What acts on a terminal and is not seen: the sequences that colour text or set a title, control
#: characters but tab and line feed, marks that change the direction of a line, half characters.
_UNSEEN = re.compile(
    r"\x1b\[[\d;?]*[A-Za-z]|\x1b\][^\x07\x1b\n<>\"]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: An escape of JSON that may be what is not seen.
_ESCAPE = re.compile(rb"\\[bfru]")


def clean(text: str) -> str:
    """A text of a program or a host, without what acts on a terminal."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub("", text)


def slug(*words: str) -> str:
    """Words as the name of a file: lower case, digits and hyphens; ``OneTwo`` is two words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", " ".join(words).replace("/", ""))
    return re.sub(r"[^a-z0-9]+", "-", apart.lower()).strip("-")


@functools.cache
def templates(folder: Path, html: bool = False) -> jinja2.Environment:
    """The templates of a folder, such as those of a module beside it.

    :param html: they are of pages, in which texts are escaped.
    """
    import jinja2  # noqa: PLC0415 - few commands write texts

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=html,  # noqa: S701 - other texts are no HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not html,
    )
