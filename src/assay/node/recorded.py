"""What may be written down of the environment and of texts: no secret, and no user.

A script of a node imports this file from its folder, the suite from its package.
"""

import os
import re

#: The list of the variables whose values may be written down, beside this script.
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.txt")

#: What is written in place of any other value.
HIDDEN = "***"

#: Names of secrets; UCX_IB_PKEY is none. As in ``witness.sh``.
SECRET = re.compile(r"PASS|PWD|TOKEN|SECRET|CREDENTIAL|AUTH|(^|_)KEYS?(_|$)", re.IGNORECASE)

#: Settings in any text: a variable, or what Open MPI lists. A value may have blanks.
SETTING = re.compile(
    r"(?<![\w.%-])((?:LD|GLIBC|MALLOC|UCX|OMPI|OPAL|PRTE|PMIX|HWLOC|MPICH|MPIR|I_MPI|MV2|FI|PSM[23]"
    r"|OMP|GOMP|KMP|OPENBLAS|GOTO|BLIS|MKL)_\w+|(?<=\d\] )[a-z]\w*(?==.*\((?:environment|file \()))"
    r"=(.*?)(?=\s\w+=|\s\(environment\)|\s\(file \(|[\r\0]|$)",
    re.MULTILINE,
)


def listed(path: str = RECORDED) -> "set[str]":
    """Names, and beginnings of names, of the variables whose values may be written down."""
    try:
        with open(path) as file:
            return {line.strip() for line in file if line[0] not in "#\n"}
    except OSError:
        return set()


def recorded(name: str, value: str, known: "set[str]") -> str:
    """A value as it may be written down; `known` is from :func:`listed`."""
    name = name if name[:1].isupper() else "OMPI_MCA_" + name
    beginnings = {name[: match.end()] for match in re.finditer("_", name)}
    if SECRET.search(name) or known.isdisjoint(beginnings | {name}):
        return HIDDEN
    return without_user(value)


def without_user(text: str) -> str:
    """A text without the users and passwords in addresses."""
    return re.sub(r"(://)[^/\s\"'<>\\]*@", r"\1" + HIDDEN + "@", text)


def redacted(text: str, known: "set[str]") -> str:
    """A text as it may be written down: without the values of variables that are not known."""
    return without_user(SETTING.sub(lambda it: it[1] + "=" + recorded(it[1], it[2], known), text))
