"""IOzone: columns by header and command line, the requested cells, and runs that stopped."""

import pytest
import real_outputs
from real_outputs import refused, texts

from assay.parse import ParseError, iozone

TEXTS = texts("iozone")


def edited(old, new, name="osync"):
    return real_outputs.edited(TEXTS[name], old, new)


@pytest.mark.parametrize("name", ["auto", "fsync_close", "3.508.auto"])
def test_each_value_is_as_printed(name):
    """The words between the header and the last line."""
    body = TEXTS[name].split("freread")[1].split("iozone test complete.")[0]
    printed = [line.split() for line in body.split("\n") if line.strip()]

    rows = iozone.parse_iozone(TEXTS[name]).rows

    assert [[str(value) for value in row.values()] for row in rows] == printed


def test_numbers_that_run_into_each_other():
    text = TEXTS["3.414.auto"]
    (line,) = [line for line in text.split("\n") if line.split()[:2] == ["256", "256"]]
    parsed = iozone.parse_iozone(text)

    assert len(line.split()) < len(parsed.rows[0])
    assert parsed.sound
    digits = "".join(str(value) for value in parsed.rows[-1].values())
    assert digits == line.replace(" ", "")
    rates = list(parsed.rows[-1].values())[2:]
    assert all(4 <= len(str(rate)) <= 8 for rate in rates)


def test_a_number_wider_than_its_column_is_refused_not_guessed():
    # Made from a real row: the first rate has one digit more than its column can hold.
    (line,) = [x for x in TEXTS["3.414.auto"].split("\n") if x.split()[:2] == ["256", "256"]]
    rate = line[24:32].strip()
    wide = line[:24] + rate.ljust(9, "7") + line[32:]

    with pytest.raises(ParseError, match="does not fit") as error:
        iozone.parse_iozone(edited(line, wide, "3.414.auto"))
    assert error.value.text.split() == wide.split()
    with pytest.raises(ParseError, match="does not fit"):
        iozone.parse_iozone(edited(line, line + "7", "3.414.auto"))


@pytest.mark.parametrize("digits", [8, 9])
def test_blanks_after_the_last_number_do_not_hide_that_it_was_pushed(digits):
    # Made from real rows: only the columns of -i 0 -i 1, and the first rate has 8 or 9 digits.
    text = TEXTS["3.414.auto"].replace("-a -E", "-a -i 0 -i 1")
    rows = [line for line in text.split("\n") if line.strip()[:1].isdigit()]
    for row in rows:
        text = text.replace(row, row[:58])
    rate = rows[-1][24:32].strip()
    text = text.replace(rows[-1][:58], rows[-1][:24] + rate.ljust(digits, "7") + rows[-1][32:58])

    if digits == 8:
        assert iozone.parse_iozone(text).rows[-1]["write"] == int(rate.ljust(8, "7"))
    else:
        with pytest.raises(ParseError, match="does not fit"):
            iozone.parse_iozone(text)


def test_a_duration_below_half_a_microsecond_is_0():
    assert iozone.parse_iozone(
        edited("        3        1", "        3        0", "microseconds")
    ).sound


def test_without_its_command_line_nothing_is_known_to_be_complete():
    command = "\tCommand line used: iozone -e -c -s 4m -r 64k -f t\n"

    # The output looks like a run with one file of 512 KiB in records of 4 KiB. Such a run needs no
    # options.
    text = edited("            4096      64 ", "             512       4 ", "fsync_close")
    assert iozone.parse_iozone(text.replace("-s 4m -r 64k ", "")).complete
    assert not iozone.parse_iozone(text.replace(command, "")).complete


def test_the_last_number_of_a_cut_text_is_not_believed():
    text = TEXTS["osync"]
    cut = text[: text.index("20604163") + 4]

    parsed = iozone.parse_iozone(cut)

    assert not parsed.complete
    assert [row["record_size"] for row in parsed.rows] == [64]


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("iozone -a -n 64k -g 1m -i 0 -i 1 -f t", 0),
        ("iozone -a -g1024 -i0 -i1", 0),
        ("iozone -a -n 256 -g 1m -y 64k -q 128k -i 0 -i 1", 0),
        ("iozone -a -n 64k -g 2m -i 0 -i 1", 10),
        ("iozone -a -n 32k -g 64k -i 0 -i 1", 4),
        ("iozone -a -n 64k -g 64k -y 1 -i 0 -i 1", 2),
        ("iozone -a -+x 4 -n 64k -g 4m -i 0 -i 1", 6),
        ("iozone -a -s 512k -r 3k -i 0 -i 1", 1),
        ("iozone -s 1m -r 1m -i 0 -i 1", 0),
        ("iozone -i 0 -i 1", 0),
        ("iozone -s 3m -i 0 -i 1", 1),
        ("iozone -a -n 32m -g 32m -i 0 -i 1", 9),
        ("iozone -a -n 32m -g 32m -z -i 0 -i 1", 13),
        ("iozone -Aci 0 -i 1 -n 64 -g 1m", 0),
    ],
)
def test_what_the_command_line_asks_for(command, missing):
    # The real table with another command line: 64 KiB to 1 MiB, records of 4 KiB and more.
    text = edited("iozone -a -n 64k -g 1m -i 0 -i 1 -f t", command, "auto")
    text = text.replace("\tUsing minimum file size of 64 kilobytes.\n", "")

    parsed = iozone.parse_iozone(text)

    assert parsed.complete is (missing == 0)
    said = [problem for problem in parsed.problems if problem.startswith("no row for")]
    assert [int(problem.split()[3]) for problem in said] == [missing] * bool(missing)


def test_no_file_is_smaller_than_a_page():
    # IOzone rounds -n 3 up to one page and prints so.
    text = edited("-n 64k -g 1m", "-n 3 -g 1m", "auto")

    assert iozone.parse_iozone(text).complete


@pytest.mark.parametrize("rate", ["   464825", "        0"])
def test_a_rate_of_0_is_a_problem(rate):
    parsed = iozone.parse_iozone(edited("   464825", rate))

    assert parsed.complete
    assert parsed.sound is (rate.strip() != "0")


test_what_is_not_iozones_table_is_refused = refused(
    iozone.parse_iozone,
    TEXTS["osync"],
    [
        ("$Revision: 3.489 $", "$Revision: 4.001 $", "only IOzone 3"),
        ("write  rewrite    read", "write   append    read", "unknown columns"),
        ("            4096     256", "            4096      64", "a second row"),
        ("  1189263", "  1189263  1189263", "does not fit"),
        ("  1189263", "  1189x63", "does not fit|whole number"),
        ("-i 0 -i 1", "-i 0", "does not fit"),
        ("\niozone test complete.", "              kB  reclen    write\n", "a second table"),
        ("\tRun began", "\tIozone: Performance Test of File I/O\n\tRun began", "2 runs"),
    ],
)
