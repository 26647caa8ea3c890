"""The base class of every test: no verdict without evidence.

ReFrame passes a run whose metric cannot be parsed, or whose reference is for another system. It
also passes a run whose program crashed after it printed what the sanity pattern expects. Tests that
derive from :class:`StrictCheck` do not pass in these cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import variable

from assay.declared import Figure
from assay.judge import LAUNCHES_TO_PASS, Peak
from assay.parse import Parsed
from assay.run.job_script import JobScript
from assay.run.sanity import Believed
from assay.run.verdict import Judged, Measured


class StrictCheck(JobScript, Believed, Judged, rfm.RunOnlyRegressionTest):
    """A benchmark with evidence for every number.

    A test states by variables of ReFrame what runs, and where: by feature words of partitions and
    stacks, not by names of sites. It states what counts by ``declares``, and by ``figures`` what is
    drawn beside curves and heat maps of its rows.

    Every test must meet these conditions:

    - The benchmark itself ended with exit code 0.
    - The output is complete, is from a known program and version, and has no problem.
    - Every declared metric is there and finite.
    - Every metric has a reference, or the site's reason for having none.

    :class:`assay.run.mpi.MpiCheck` adds the size of the world, and its mixins add the data path
    under test.

    The hooks of a test run in these phases. A test adds hooks and overrides no hook of this class.

    ===============  ==================================  ==========================================
    phase            what happens here                   what a test does there
    ===============  ==================================  ==========================================
    before setup     a settled case ends; the deadline   (nothing: partition and stack are unknown)
    after setup      :mod:`assay.run.job_script`:        chooses ranks, sizes, inputs; skips what
                     smoke profile, queue, launcher      the partition cannot run
    before run       the image, and last the witness of  sets ``executable_opts``, ``prerun_cmds``,
                     the launch around all commands      ``env_vars``
    sanity           :mod:`assay.run.sanity`: exit       implements :meth:`read`, :meth:`requested`,
                     code, output, problems, load        :meth:`examine`, :meth:`missed`,
                                                         :meth:`accused`
    performance      :mod:`assay.run.verdict`:           implements :meth:`measure`, :meth:`peaks`,
                     metrics against references,         states :attr:`curve`
                     curves against plausibility
    ===============  ==================================  ==========================================
    """

    #: What is measured: ``network``, ``compute``, ``storage`` or ``node``. Every test states it.
    kind = variable(str)

    #: How much is run: ``smoke`` (minutes in all) or ``full``. Set by ReFrame's ``--mode``.
    profile = variable(typ.Str["smoke|full"], value="full")

    #: ``acceptance`` judges by the site's references; ``calibration`` ignores them.
    purpose = variable(typ.Str["acceptance|calibration"], value="acceptance")

    #: Every metric that this test promises -> its unit, one of :mod:`assay.metrics`.
    declares = variable(dict, value={})

    #: The figures that each case is a part of: a list of :class:`assay.declared.Figure`.
    figures = variable(typ.List[Figure], value=[], loggable=False)

    #: What is at fault (see :data:`assay.show.nodes.PARTS`) -> a pattern of metrics that show it.
    proves = variable(typ.Dict[str, str], value={}, loggable=False)

    #: Fewest launches of a case that passes; less than the default changes nothing. If launches are
    #: slow by chance, like a coin, one case of four passes on two of them, and one of 64 on six.
    least_launches = variable(int, value=LAUNCHES_TO_PASS)

    #: Tests, or values of parameters, that the smoke profile runs on a partition; all if None.
    smoke = variable(typ.List[str], type(None), value=None)

    #: The pattern of communication behind rows with a column ``size``: a key of
    #: ``judge/curves.yaml``, which says what such a curve may show at most.
    curve = "point-to-point"

    #: Whether the program is started by the partition's parallel launcher.
    parallel = variable(bool, value=False)

    #: Whether another launch gives another measurement. If the test compares others, the tests that
    #: it depends on are launched again with it. If the value is false, the first verdict stands.
    measures_anew = variable(bool, value=True)

    def read(self) -> Parsed:
        """The output as typed rows. Runs in the stage directory.

        :raises assay.parse.ParseError: the output is not of the program that was started.
        """
        raise NotImplementedError

    def stdout_text(self) -> str:
        """Standard output of the job; any bytes are accepted. Runs in the stage directory."""
        return Path(str(self.stdout)).read_text(encoding="utf-8", errors="replace")

    def requested(self) -> Mapping[str, Any]:
        """What the output must repeat.

        The keys are ``program``, a fact of the parser, a column of counts (each row must have the
        value), or ``sizes`` (the column ``size``, in its order).

        A wrapper, another program of the same name, or an option that was ignored would otherwise
        measure something else.
        """
        return {}

    def measure(self, parsed: Parsed) -> Mapping[str, Measured]:
        """Each declared metric: a quantity with its unit from the output, or a computed number.

        A computed number (a ratio) may be one value for each launch.
        """
        raise NotImplementedError

    def claimed(self, parsed: Parsed) -> float:
        """How long the program says that it worked, at least [s]; by default the column `time`."""
        if parsed.units.get("time") != "s":
            return 0.0
        return sum(float(row["time"]) for row in parsed.rows)

    def counted(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """How many messages the time of a row is the mean of, and how many went before them.

        None if both are many. Of few messages, what a launch pays once is a part of the time.
        """
        return None

    def peaks(self, parsed: Parsed) -> Mapping[str, Peak]:
        """The peak of each metric that has one."""
        return {}

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Problems beyond the output, one line each; `parsed` is None for an unreadable output."""
        return []

    def _causes(self) -> list[str]:
        """Faults of the node that explain other problems, one line each; they are named first.

        Runs after :meth:`examine`.
        """
        return []

    def missed(self) -> str:
        """Evidence that this launch lacks, in one line; empty if nothing is missing.

        Runs after :meth:`examine`. Chance can explain the gap, for example on a busy machine. The
        launch does not count, and the case is launched again.
        """
        return ""

    def accused(self, parsed: Parsed) -> list[str]:
        """Faults of the machine that the numbers show, such as a slow node, one line each.

        Runs after :meth:`examine`. Other work on the machine may explain these faults.
        """
        return []
