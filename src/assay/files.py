"""Files that are written whole or not at all, and files that all sites share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def of_all_sites(site: Path, name: str) -> Path:
    """A file that all sites share: beside the folders of the sites, else in ``site-config/``.

    A site may also be in another folder of the repository, such as ``examples/``.

    :param site: the folder of one site.
    """
    beside = site.parent / name
    return beside if beside.exists() else site.parents[1] / "site-config" / name


def write(path: Path, content: str | bytes) -> None:
    """Write a whole file, or leave the old one as it was; the umask sets who may read it.

    :param content: text is written as UTF-8.

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
    except OSError:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise
