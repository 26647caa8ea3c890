"""HPL, the High-Performance Linpack benchmark (``xhpl``).

The parser was checked against HPL 2.3. The banner and the parameters come from
``testing/ptest/HPL_pdinfo.c`` lines 757-1121, the table and the residual from
``testing/ptest/HPL_pdtest.c`` lines 216-432, the summary from ``testing/ptest/HPL_pddriver.c``
lines 239-279, and the error messages from ``src/pauxil/HPL_pwarn.c``. Versions 2.0 to 2.3 print
the same layout; 2.0 writes the residual in fixed notation.

HPL-NVIDIA is HPL 2.1. It prints its own banner above that of HPL, and progress lines between the
lines of HPL. From 23.x on, the rate of each GPU follows the rate in brackets. This part was only
checked against published outputs of 1.0.0 (hpc-benchmarks 21.4) and 24.3 to 25.4; it has not yet
been run on hardware.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from assay.parse import Parsed, ParseError, Value
from assay.parse.reading import first, integer, only, real, split
from assay.parse.tables import Identity, contradictions

VERSIONS = ("2.0", "2.1", "2.2", "2.3")
#: Names of the program in a result; NVIDIA's version computes on GPUs.
HOST, NVIDIA = "xhpl", "xhpl (HPL-NVIDIA)"
#: Threshold of the scaled residual in HPL's own input file. A larger one proves less.
THRESHOLD = 16.0

_COLUMNS = {
    "T/V": "variant",
    **{name: name.lower() for name in ("N", "NB", "P", "Q", "Time")},
    "Gflops": "performance",
}
UNITS = {
    **dict.fromkeys(("n", "nb", "p", "q"), "1"),
    **{"time": "s", "performance": "GFLOP/s"},
    **dict.fromkeys(("residual", "passed"), "1"),
}
# Each combination of these, on each process grid, is one problem (HPL_pddriver.c:158-232).
_SWEPT = ("N", "NB", "PFACT", "NBMIN", "NDIV", "RFACT", "BCAST", "DEPTH")

_HPCC = re.compile(r"^This is the DARPA/DOE HPC Challenge Benchmark version ", re.MULTILINE)
_RELATIVE = re.compile(r"HPL\S* +\S+ +-- ")
_NVIDIA = re.compile(r"HPL-NVIDIA (\d+(?:\.\d+)+) +-- NVIDIA accelerated HPL benchmark -- NVIDIA$")
_PER_GPU = re.compile(r" \( +per GPU\)$")
_RATE_PER_GPU = re.compile(r" +\( *(\S+)\)$")
_GPU_WARNING = re.compile(r"!!!! WARNING: (.*\S)")
_BANNER = re.compile(r"HPLinpack (\S+) +-- +High-Performance Linpack benchmark +--")
_ERROR = re.compile(r"HPL ERROR(?: (?:from process|in function|on line)|: )")
_MESSAGE = re.compile(r">>> (.*) <<<$")
_OURS = re.compile(f"^(?:{_RELATIVE.pattern}|{_ERROR.pattern})", re.MULTILINE)

_PARAMETERS = "The following parameter values will be used:"
_PARAMETER = re.compile(r"([A-Z][A-Z0-9]*) *:(.*)$")
_LIMIT = re.compile(r"- Computational tests pass if scaled residuals are less than +(\S+)$")
_HEADER = re.compile(r"T/V +N +NB ")
_ROW = re.compile(r"W[RC]\S+\s")
_RESIDUAL = re.compile(
    r"\|\|Ax-b\|\|_oo/\(eps\*\(\|\|A\|\|_oo\*\|\|x\|\|_oo\+\|\|b\|\|_oo\)\*N\)= *(\S+)"
    r" \.{6} (PASSED|FAILED)$"
)
_FINISHED = re.compile(r"Finished +(\d{1,9}) tests with the following results:$")
_TALLY = re.compile(
    r" +(\d{1,9}) tests (?:completed (?:and )?)?(passed|failed|without|skipped) "
    r"(?:residual checks,|checking,|because of illegal input values\.)$"
)
_END = "End of Tests."
_RULE = "=" * 80


def recognise(text: str) -> bool:
    """Whether `text` looks like an output of HPL or a derived program, but not like one of HPCC."""
    return bool(_OURS.search(text)) and not _HPCC.search(text)


def parse_hpl(text: str) -> Parsed:
    """Read the output of one run of ``xhpl``.

    There is one row for each solved problem: ``variant`` (the T/V code), ``n``, ``nb``, ``p``,
    ``q``, ``time`` [s], ``performance`` [GFLOP/s], ``residual`` [1, scaled; NaN if HPL printed no
    residual], ``passed`` (True if HPL printed PASSED for it).

    The output is complete if it has the number of problems that the header asks for, without
    those that HPL reports as skipped, and if it has the closing lines of HPL.

    :raises ParseError: no banner, an unknown version or name, more than one run, or a table that
        is not HPL's; or HPL refused to start (the error gives HPL's reason).
    """
    lines = split(text)
    nvidia = first(lines, _NVIDIA)
    if nvidia:
        # Without NVIDIA's additions; each line keeps its number.
        plain = ["" if _NVIDIA.match(line) else _PER_GPU.sub("", line) for line in lines]
        lines = [_RATE_PER_GPU.sub("", line) if _ROW.match(line) else line for line in plain]
    version = _version(lines)
    parameters = _parameters(lines)
    wanted = _wanted(parameters)
    limit = first(lines, _LIMIT)
    threshold = None if limit is None else real(limit, 0, limit)
    rows, residuals, problems = _rows(lines, threshold)
    tally = _tally(lines, problems)
    passed = sum(bool(row["passed"]) for row in rows)
    if tally.get("passed", passed) != passed:
        problems.append(f"{passed} residuals PASSED, the summary counts another number")
    if wanted is not None and tally.get("finished", wanted) != wanted:
        problems.append(f"the header asks for {wanted} problems, the summary counts others")
    if threshold is not None and not threshold <= THRESHOLD:
        problems.append(f"residual threshold is {threshold}, HPL's own is {THRESHOLD}")
    warned = filter(None, map(_GPU_WARNING.match, lines))  # of clocks, temperatures and links
    gpu_warnings = [*dict.fromkeys(re.sub(r"\s+", " ", said[1]) for said in warned)]
    checked = {"passed", "failed"} <= set(tally) and residuals == len(rows)
    return Parsed(
        family="hpl",
        program=HOST if nvidia is None else NVIDIA,
        version=nvidia or version,
        complete=(
            (_END, _RULE) in zip(lines, lines[1:])
            and wanted is not None
            and wanted == tally.get("finished")
            and wanted == len(rows) + tally.get("skipped", wanted)
            and wanted == sum(tally.values()) - tally["finished"]
            and (checked or "without" in tally)
        ),
        rows=tuple(rows),
        units=UNITS,
        problems=tuple(_errors(lines) + problems),
        facts={
            "grids": [f"{p}x{q}" for p, q in zip(parameters.get("P", ()), parameters.get("Q", ()))],
            "threshold": threshold,
            "tests": tally,
            "parameters": {name: " ".join(words) for name, words in parameters.items()},
            **({"gpu_warnings": gpu_warnings} if nvidia else {}),
        },
    )


def _version(lines: Sequence[str]) -> str:
    errors = _errors(lines)
    # HPL writes its error message first, and then never prints the banner.
    if errors and not any(map(_RELATIVE.match, lines)):
        raise ParseError("; ".join(errors))
    number, banner = only(lines, _RELATIVE, "banner of HPL")
    match = _BANNER.match(banner.string)
    if not match or match[1] not in VERSIONS:
        raise ParseError(f"only HPLinpack {', '.join(VERSIONS)} is known", number, banner.string)
    return match[1]


def _errors(lines: Sequence[str]) -> list[str]:
    errors = []
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        if _ERROR.match(line):
            message = _MESSAGE.match(following)
            said = message[1] if message else line.removeprefix("HPL ERROR: ")
            errors.append(f"line {number}: HPL ERROR: {said}")
    return errors


def _parameters(lines: Sequence[str]) -> dict[str, list[str]]:
    """The values that the header lists under each name; long lists continue on indented lines."""
    values: dict[str, list[str]] = {}
    if _PARAMETERS not in lines:
        return values
    name = ""
    for line in lines[lines.index(_PARAMETERS) + 1 :]:
        match = _PARAMETER.match(line)
        if match:
            name = match[1]
            values[name] = match[2].split()
        elif line.startswith(" " * 8) and name:
            values[name] += line.split()
        elif line:
            break
    return values


def _wanted(parameters: dict[str, list[str]]) -> int | None:
    """How many problems the header asks for; None when part of it is missing."""
    grids = len(parameters.get("P", ()))
    if grids != len(parameters.get("Q", ())):
        return None
    return math.prod(len(parameters.get(name, ())) for name in _SWEPT) * grids or None


def hpl_operations(order: float) -> float:
    """The operations that HPL counts for a matrix of this order (HPL_pdtest.c of HPL 2.3)."""
    return order * order * (2 / 3 * order + 3 / 2)


_CONTRADICT = "order, time and performance contradict each other"
_IDENTITIES = (Identity("operations = time * performance * 1e9", _CONTRADICT, share=1e-4),)


def _rows(
    lines: Sequence[str], threshold: float | None
) -> tuple[list[dict[str, Value]], int, list[str]]:
    """The rows, how many of them have a residual, and their problems."""
    residuals, waits = 0, False
    rows: list[dict[str, Value]] = []
    problems: list[str] = []
    columns: list[str] = []
    for number, line in enumerate(lines, 1):
        if _HEADER.match(line):
            names = line.split()
            if sorted(names) != sorted(_COLUMNS):
                raise ParseError("unknown columns in the table of HPL", number, line)
            columns = [_COLUMNS[name] for name in names]
        elif _ROW.match(line):
            cells = line.split()
            if len(cells) != len(columns):
                raise ParseError("a row that does not fit the table's header", number, line)
            rows.append(_row(dict(zip(columns, cells)), number, line, problems))
            waits = True
        elif match := _RESIDUAL.match(line):
            if not waits:
                problems.append(f"line {number}: a residual without a result")
                continue
            residual, passed = real(match[1], number, line), match[2] == "PASSED"
            rows[-1].update(residual=residual, passed=passed)
            residuals, waits = residuals + 1, False
            if not passed:
                problems.append(f"line {number}: residual check FAILED: {match[1]}")
            # Rounding leaves a residual in every solution of floating-point numbers.
            elif not (residual > 0 or rows[-1]["performance"] == 0) or not (
                threshold is None or residual < threshold
            ):
                problems.append(f"line {number}: PASSED with a residual of {match[1]}")
    return rows, residuals, problems


def _row(at: dict[str, str], number: int, line: str, problems: list[str]) -> dict[str, Value]:
    row: dict[str, Value] = {"variant": at["variant"]}
    row.update({name: integer(at[name], number, line) for name in ("n", "nb", "p", "q")})
    row.update({name: real(at[name], number, line) for name in ("time", "performance")})
    # The time is rounded to 0.01 s, so only the rate can prove that something ran.
    if not (float(row["time"]) >= 0 and float(row["performance"]) > 0):
        problems.append(f"line {number}: not a measurement: {line}")
    else:
        counted = {**row, "operations": hpl_operations(integer(at["n"], number, line))}
        wrong = contradictions(_IDENTITIES, counted, at)
        problems += [f"line {number}: {said}: {line}" for said in wrong]
    return {**row, "residual": math.nan, "passed": False}


def _tally(lines: Sequence[str], problems: list[str]) -> dict[str, int]:
    """The counts of the summary; one that is not 0 and not of passed tests is a problem."""
    tally: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if match := _FINISHED.match(line):
            tally["finished"] = int(match[1])
        elif match := _TALLY.match(line):
            tally[match[2]] = int(match[1])
            if tally[match[2]] and match[2] != "passed":
                problems.append(f"line {number}: {line.strip().rstrip('.,')}")
    return tally
