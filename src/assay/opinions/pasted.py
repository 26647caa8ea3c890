"""Texts as people paste them: the outputs in a ticket, a chat, a job's log, a page of the web.

What a launcher, a log or a mail puts in front of each line is taken away, and so are colours, the
prompt of a shell and what a job script prints around a program. Several outputs in one text are
separated. Nothing is taken away from a text that a parser reads as it is. Lines keep their numbers.

The prefixes are those of ``srun --label``, ``mpirun --tag-output`` and ``--timestamp-output``,
``mpiexec -l`` of Hydra and of PALS, ``kubectl logs --prefix``, ``docker compose``, syslog, CI
services and mails, as their manuals describe them.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from assay.parse import Parsed, ParseError
from assay.parse.reading import CRASH
from assay.parse.registry import PARSERS
from assay.show.outputs import of_text

#: Control sequences of a terminal, also as an editor shows them.
_COLOURS = re.compile(
    r"(?:\x1b|\^\[|\\e|\\033)\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\u200b\u2060]"
)

#: What only a page of the web has; the tags in it, of which some end a line.
_PAGE = re.compile(r"</?(?:pre|div|span|td|tr|code|p|br|html|body)\b[^<>\n]*>", re.IGNORECASE)
_BREAKS = re.compile(r"<br\s*/?>|</(?:div|p|tr)>", re.IGNORECASE)

_DAY, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(?:[.,]\d+)?"

_DATE = rf"[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d {_TIME}"

#: In front of a line, and in no output of a program: name -> what it looks like. The group ``rank``
#: says which of several processes printed the line.
_SURE = {
    "time stamps": rf"\[?{_DAY}[T ]{_TIME}(?:Z|[+-]\d\d:?\d\d)?\]?:?",
    "syslog": rf"[A-Z][a-z]{{2}} [ \d]\d {_TIME} [\w.-]+ [\w./-]+(?:\[\d+\])?:",
    "mpirun --timestamp-output": rf"{_DATE} \d{{4}}(?=\[|<std)",
    "mpirun --tag-output": r"\[(?:[^\]\s@]+@)?(?P<rank>\d+,\d+)\](?:\[\S*\])?<std(?:out|err)>:",
    "an output's name": r"<std(?:out|err)>:",
    "kubectl --prefix": r"\[(?P<rank>pod/[^\]\s]+)\]",
}

#: In front of a line, and sometimes the line of a program itself: only where most lines have it.
_LIKELY = {
    "quotes": r">(?: ?>)*",
    "srun --label": r" {0,5}(?P<rank>\d{1,6}):",
    "mpiexec -l": r"(?:[\w.-]+ )?(?P<rank>\d{1,6}):|\[(?P<other>\d{1,6})\](?= |$)",
    "docker compose": r"(?P<rank>[\w.-]+) +\|",
    "times": rf"\[?{_TIME}\]?(?= |$)",
    "numbers of lines": r" *\d{1,5} ?[|│]",
}

#: The share of the lines of a text that has a likely prefix.
_MOST = 0.7

#: Around the output of a program: the prompt and the echo of a shell, modules, dates, times, and
#: remarks of a scheduler that ended nothing.
_AROUND = re.compile(
    r"(?:[\w.-]+@[\w.-]+[:\s][^#$%>]*[#$%>]|\[[\w.-]+@[\w.-]+ [^\]]*\][#$%]|[$%])(?: .*)?"
    r"|\+{1,4} \S.*|Loading \S+(?:/\S+)?.*|(?:module|ml) (?:load|purge|list|use|swap).*"
    r"|Currently Loaded Modules?:?.*|The following have been reloaded.*|Lmod .*"
    r"|(?:real|user|sys)\s+\d+m[\d.,]+s|[\d.]+user [\d.]+system .*"
    rf"|{_DATE}(?: [AP]M)?(?: [A-Z]{{2,5}})? \d{{4}}"
    r"|\*{9,}|\* Waiting for client to connect.*|#{2,6} \w.*"
    r"|(?:[Cc]lient|[Ss]erver|[Oo]utput|[Rr]esults?|[Ee]xample):?"
    r"|-{3}|={3,}|`{3}\w*|~{3}|(?:srun|sbatch|salloc): (?:job|Granted|Submitted|Pending|Nodes) .*"
    r"|srun: (?:error: )?.*\b[Ii]gnoring\b.*|.*: (?:Submitted batch job|Granted job allocation) \d+"
)

#: The first line of what describes a machine, and those that follow.
_MACHINE = re.compile(
    r"Architecture: |# dmidecode |Handle 0x|Memory Device$|\|? ?NVIDIA-SMI |=+NVSMI LOG=+"
    r"|\+(?:-{20,}\+)+$|GPU \d+: .*\(UUID|CA '|Infiniband device '|Linux \S+ \d+\.\d+"
    r"|\s+total +used +free|\s+GPU0(?:\s|$)|=+ (?:ROCm|End of ROCm)"
)
_OF_MACHINE = re.compile(
    r"\s*[\w#(][^:\n]{0,60}:(?:\s.*)?|[|+].*|(?:Getting )?SMBIOS .*|GPU\d+\s.*|\s*|\t.*"
)

#: Lines of a machine that have the words of a failure, and report none.
_COUNTS = re.compile(
    r"Error \w[\w ]*:|(?:ECC|.* ECC)(?: (?:Mode|Errors?))?$|.*\bErrors$|.*: .*\bECC$"
)

#: What a line has that reports the end of a process, or of a device.
BROKE = re.compile(
    rf"{CRASH.pattern}|\(core dumped\)|\bKilled\b|\boom.kill|CANCELLED AT|\bXid \("
    r"|(?:fell|fallen) off the bus|GPU is lost|uncorrectable ECC error",
)
#: What a line that reports a failure has.
_TROUBLE = re.compile(
    rf"{BROKE.pattern}|\b(?:errors?|fatal|fail\w*|\w*abort\w*|killed|invalid|signal|timed out"
    r"|refused|denied|cannot|unable|exceeded|lost|terminated|corrupted|died|out of memory"
    r"|exit code)\b|\bERR!",
    re.IGNORECASE,
)

#: A log of UCX or NCCL comes before the title of the program that it belongs to.
_LOG = re.compile(r"\[\d+\.\d+\] \[|.*\bNCCL (?:INFO|WARN)\b")


class Sent(NamedTuple):
    """One output of a text.

    :ivar text: it alone, after as many empty lines as stood before it.
    :ivar parsed: None if no parser reads it.
    :ivar why: no parser reads it; empty otherwise.
    :ivar line: of the text, where it begins.
    :ivar notes: what was taken away or supplied, for the reader.
    :ivar around: the text that it stands in.
    """

    text: str
    parsed: Parsed | None
    why: str
    line: int
    notes: tuple[str, ...] = ()
    around: str = ""


def outputs(text: str, last_size: int | None = None) -> list[Sent]:
    """The outputs in a text, in their order; one that nobody reads if there is none.

    :param last_size: as for :func:`assay.parse.registry.parse_output`.
    """
    best = [its._replace(around=text) for its in _separated(text, last_size)]
    for tried, notes in _cleaned(text):
        for form in dict.fromkeys((tried, _without_machine(tried))):
            if all(sent.parsed and sent.parsed.sound for sent in best):
                return best
            found = [
                its._replace(notes=notes + its.notes, around=tried)
                for its in _separated(form, last_size)
            ]
            best = max(best, found, key=_worth)
    return best


def _worth(sents: Sequence[Sent]) -> tuple[bool, int, int, int]:
    whole = all(sent.parsed and sent.parsed.sound for sent in sents)
    read = [sent.parsed for sent in sents if sent.parsed]
    problems = sum(len(parsed.problems) for parsed in read)
    return whole, sum(parsed.sound for parsed in read), len(read), -problems


# --- what stands in front of lines, and around outputs


def _cleaned(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Forms of a text with less and less of what is not of a program, and what was taken away."""
    notes: list[str] = []
    plain = text.replace("\xa0", " ")
    if len(_PAGE.findall(plain)) >= 2:
        plain = html.unescape(_PAGE.sub("", _BREAKS.sub("\n", plain)))
        notes.append("read without the tags of a page")
    plain = _COLOURS.sub("", plain)
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n")]
    yield "\n".join(lines), tuple(notes)
    lines, ranks = _without_prefixes(lines, notes)
    yield "\n".join(lines), tuple(notes)
    around = [
        "" if _AROUND.fullmatch(line.rstrip()) and _harmless(line) else line for line in lines
    ]
    for form in _dedented(around):
        yield form, tuple(notes)
    # Another process may have said something between the lines of the one that measured.
    for rank, _ in Counter(filter(None, ranks)).most_common(64):
        own = [its for its, of in zip(around, ranks) if of == rank or not its.strip()]
        others = [its for its, of in zip(around, ranks) if of != rank and its.strip()]
        # If it failed, or ran the benchmark by itself, nothing of it is left out.
        if others and all(map(_harmless, others)) and not _is_output("\n".join(others)):
            for form in _dedented(own):
                yield form, (*notes, f"read without the lines of other processes than {rank}")


def _without_machine(text: str) -> str:
    """A text without what lscpu, free, dmidecode, nvidia-smi, ibstat and their like print."""
    lines, inside = text.split("\n"), False
    for at, line in enumerate(lines):
        inside = bool(_MACHINE.match(line) or (inside and _OF_MACHINE.fullmatch(line)))
        inside = inside and not _is_output(line)
        if inside and (_harmless(line) or (line[:1].isspace() and _COUNTS.match(line.strip()))):
            lines[at] = ""
    return "\n".join(lines)


def _harmless(line: str) -> bool:
    """Whether a line reports no failure."""
    return not _TROUBLE.search(line) or "ignoring" in line.lower()


def _is_output(text: str) -> bool:
    return any(parser.recognise(text) for parser in PARSERS.values())


def _dedented(lines: Sequence[str]) -> Iterator[str]:
    """The text, then without the blanks that all its lines begin with, or all but one or two.

    Also with one blank more: the one after a prefix may have been the program's own.
    """
    yield "\n".join(lines)
    yield "\n".join(f" {line}" if line else "" for line in lines)
    some = [line for line in lines if line.strip()]
    most = min((len(line) - len(line.lstrip()) for line in some), default=0)
    for blanks in range(most, max(most - 3, 0), -1):
        yield "\n".join(line[blanks:] for line in lines)


def _without_prefixes(lines: list[str], notes: list[str]) -> tuple[list[str], list[str]]:
    """The lines without what stands in front of them, and the process that printed each."""
    ranks = [""] * len(lines)
    for _ in range(4):  # a time stamp may stand before a label, and a quote before both
        before = lines
        for likely, prefixes in ((False, _SURE), (True, _LIKELY)):
            for name, looks in prefixes.items():
                found = _in_front(looks, lines)
                some = sum(1 for line in lines if line.strip())
                if sum(map(bool, found)) < (max(3, _MOST * some) if likely else 1):
                    continue
                for at, match in enumerate(found):
                    if match and (rank := next(filter(None, match.groups()), "")):
                        ranks[at] = rank
                # A program that prints a line in pieces has its tag before each of them.
                lines = [
                    re.sub(rf"{re.escape(its[0].rstrip())}(?= {{2}}|$)", "", line[its.end() :])
                    if its and its[0].strip(" >|")
                    else line[its.end() :]
                    if its
                    else line
                    for line, its in zip(lines, found)
                ]
                notes.append(f"read without {name} in front of the lines")
        if lines == before:
            break
    return lines, ranks


def _in_front(looks: str, lines: Sequence[str]) -> list[re.Match[str] | None]:
    """The prefix of each line. The blank after it belongs to it if all lines have one."""
    pattern = re.compile(looks)
    found = [pattern.match(line) for line in lines]
    after = [line[its.end() :] for line, its in zip(lines, found) if its]
    if any(after) and all(rest.startswith(" ") for rest in after if rest):
        pattern = re.compile(f"{looks}(?: |$)")
        found = [pattern.match(line) for line in lines]
    return found


# --- several outputs in one text


def _separated(text: str, last_size: int | None) -> list[Sent]:
    """The outputs of a text whose lines are as the programs print them."""
    whole = _read(text, 0, last_size)
    if whole.parsed and whole.parsed.sound:
        return [whole]
    lines = text.split("\n")
    marks = _marks(text, lines)
    by_family = list(_parts(lines, [m for n, m in enumerate(marks) if _begins(marks, n, lines)]))
    single = list(_parts(lines, marks))
    found = []
    for parts in (by_family, single):
        if len(parts) > 1:
            padded = [(begin, _padded(lines, begin, end)) for begin, end in parts]
            found.append([_read("\n".join(its), begin, last_size) for begin, its in padded])
    return max([[whole], *found], key=_worth)


def _padded(lines: Sequence[str], begin: int, end: int) -> list[str]:
    """A part after as many empty lines as stood before it.

    IMB runs many benchmarks by default: each has the head and the last line of its run.
    """
    part = [*[""] * begin, *lines[begin:end]]
    title = max((at for at in range(end) if _IMB[0].match(lines[at])), default=end)
    names = [at for at in range(title, end) if _IMB[1].match(lines[at])]
    if names:
        part[title : min(names[0], begin)] = lines[title : min(names[0], begin)]
        ends = (line for line in lines[names[-1] :] if _IMB[2].match(line) or _IMB[0].match(line))
        return [*part, next(ends, ""), ""]
    return [*part, *[""] * (end < len(lines))]


#: Of a run of IMB: its title, the name of a benchmark, and its last line.
_IMB = [
    re.compile(r"# +Intel ?\(R\) MPI Benchmarks "),
    re.compile(r"#-? Benchmarking \S"),
    re.compile(r"# All processes entering MPI_Finalize"),
]


#: A line that only the programs of a family print: its number from 0, and the family.
_Mark = tuple[int, str]


def _marks(text: str, lines: Sequence[str]) -> list[_Mark]:
    """The lines that show a program."""
    families = [name for name, parser in PARSERS.items() if parser.recognise(text)]
    return [
        (at, name)
        for at, line in enumerate(lines)
        if line.strip()
        for name in families
        if PARSERS[name].recognise(line)
    ]


def _begins(marks: Sequence[_Mark], at: int, lines: Sequence[str]) -> bool:
    """Whether another output begins there: of another family, or after rows, by the same words."""
    if at == 0 or marks[at][1] != marks[at - 1][1]:
        return True
    here, before = marks[at][0], marks[at - 1][0]
    alike = lines[here].split()[:2] == lines[before].split()[:2] or _IMB[0].match(lines[here])
    return bool(alike) and any(re.match(r"\s*\d", line) for line in lines[before + 1 : here])


def _parts(lines: Sequence[str], begins: Sequence[_Mark]) -> Iterator[tuple[int, int]]:
    """First and last line of each output; a log before a title belongs to it."""
    starts = [0, *(_log_before(lines, at) for at, _ in begins[1:])]
    yield from zip(starts, [*starts[1:], len(lines)])


def _log_before(lines: Sequence[str], title: int) -> int:
    """Where the log begins that stands directly before a title."""
    begin = at = title
    while at > 0 and (not lines[at - 1].strip() or _LOG.match(lines[at - 1])):
        at -= 1
        begin = at if lines[at].strip() else begin
    return begin


# --- one output


def _read(text: str, line: int, last_size: int | None) -> Sent:
    """One output as the parser reads it, with the line end that a copy loses."""
    notes: tuple[str, ...] = ()
    if text.strip() and not text.endswith("\n") and _is_whole(text.split("\n")):
        text, notes = f"{text}\n", ("read with the line end that a copy loses",)
    try:
        parsed = of_text(text, last_size)
        if (ended := _told_to_end(parsed, last_size)) is not None:
            again = of_text(text, ended)
            if again.sound:
                told = any(int(size) == ended for size in _ASKED.findall(text))
                facts = {} if told else {"ends_early": ended}
                parsed = replace(again, facts={**again.facts, **facts})
    except ParseError as error:
        return Sent(text, None, str(error), line + 1, notes)
    return Sent(text, parsed, "", line + 1, notes)


#: The command of an OSU program, with the size at which it was told to stop.
_ASKED = re.compile(r"\bosu_\w+\b.*\s(?:-m|--message-size)[ =]?(?:\d+:)?(\d+)(?!\S)")
_ENDS = re.compile(r"(?:line \d+: )?the table ends at size (\d+), not (\d+)")


def _told_to_end(parsed: Parsed, last_size: int | None) -> int | None:
    """The size [B] at which a table ends early with nothing after it: told to (-m), or cut."""
    if last_size is not None or parsed.complete:
        return None
    ends = [match for said in parsed.problems if (match := _ENDS.fullmatch(said))]
    return int(ends[0][1]) if len(ends) == len(parsed.problems) == 1 else None


def _is_whole(lines: Sequence[str]) -> bool:
    """Whether the last line is not cut: a row has as many values and digits as the one before."""
    rows = [line.split() for line in lines if re.match(r"\s*\d", line)]
    if not re.match(r"\s*\d", lines[-1]) or len(rows) < 2:
        return True
    digits = [[len(value.partition(".")[2]) for value in row] for row in rows[-2:]]
    return digits[0] == digits[1]
