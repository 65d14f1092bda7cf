"""Expressions that prove the functions of dates and moments. Part of `expression_cases`."""

from __future__ import annotations

from tests.plans.expressions.expression_group import examples

_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_PATTERNS = (
    "yyyy-MM-dd", "dd/MM/yyyy HH:mm:ss.SSS", "EEE, d MMM yyyy", "EEEE dd MMMM yy G", "D DDD F Q QQQ QQQQ",
         "h:mm a K k",
    "yyyyMMdd'T'HHmmssSSSSSS''x", "[yyyy]-M-d", "VV z zzzz O OOOO X XXX x xxx Z ZZZZZ", "y yyy yyyyyy L LLLL",
)  # fmt: skip
_READ = (
    ("2020-02-29", "yyyy-MM-dd"), ("29/02/2020 13:04:05", "dd/MM/yyyy HH:mm:ss"), ("20200229", "yyyyMMdd"),
    ("29 Feb 2020", "d MMM yyyy"), ("1 march 99", "d MMMM yy"), ("2020-060", "yyyy-DDD"),
    ("02/29/2020 01:05 pm", "MM/dd/yyyy hh:mm a"), ("2020-02-29T12:00:00.5+05:30", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
    ("2020-02-30", "yyyy-MM-dd"), ("2020-2-9", "yyyy-MM-dd"), ("2020-2-9", "yyyy-M-d"), ("13:45", "HH:mm"),
    ("2020-02-29 12:00:00 +0100", "yyyy-MM-dd HH:mm:ss Z"), ("5 BC", "y G"),
    ("2020", "yyyy"), ("12020-01-01", "yyyy-MM-dd"), ("2020-02-29 x", "yyyy-MM-dd"), ("24", "kk"), ("24", "HH"),
    ("2020-02-29", "yyyy-MM-dd[ HH:mm]"), ("2020-02-29 07:30", "yyyy-MM-dd[ HH:mm]"), (" 2020-02-29", "yyyy-MM-dd"),
)  # fmt: skip
_ZONES = ("America/New_York", "Europe/Paris", "+05:30", "Asia/Kolkata", "UTC", "PST")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


CLOCK_GROUPS = (
    examples(
        ("inst + num2 * INTERVAL '1' DAY", "ntz - INTERVAL '2' HOUR * num2", "day + num2 * INTERVAL '1' MONTH",
         "inst + INTERVAL '1-2' YEAR TO MONTH", "inst + INTERVAL '1 02:03:04.5' DAY TO SECOND",
         "ntz + INTERVAL '1 day 2 hours'", "inst + INTERVAL '1.5' SECOND", "inst + (INTERVAL 1 DAY + INTERVAL 2 HOURS)",
         "ntz + INTERVAL '10:30' HOUR TO MINUTE", "inst - 3 * INTERVAL '1' YEAR", "day + INTERVAL 3 DAYS",
         "inst + - INTERVAL 1 DAY", "TIMESTAMP '2020-01-31 00:00:00' + 2 * INTERVAL 1 MONTH",
         "inst - inst2 > INTERVAL '1' HOUR", "ntz - ntz2 <= INTERVAL 30 DAYS", "INTERVAL 1 DAY < inst - inst2",
         "DATE(inst) - DATE(ntz2) >= INTERVAL '1' DAY"),
        utc=True,
    ),
    examples(
        (*(f"TIMESTAMPDIFF({unit}, inst, inst2)" for unit in _UNITS),
         *(f"TIMESTAMPADD({unit}, num2, inst)" for unit in _UNITS),
         "DATEDIFF(day, day, day2)", "DATEDIFF(MONTH, day, inst2)", "DATE_DIFF(HOUR, ntz, ntz2)",
         "DATEADD(day, 3, inst)", "DATE_ADD(MONTH, num2, day)", "TIMESTAMPADD(HOUR, 5, ntz)",
         "DATEADD(WEEK, -1, day)",
         "TIMESTAMPADD(MONTH, num2, ntz)", "TIMESTAMPADD(MINUTE, big2, inst)",
         "MONTHS_BETWEEN(inst, inst2)", "MONTHS_BETWEEN(day, day2)", "MONTHS_BETWEEN(ntz, inst2, FALSE)",
         "MONTHS_BETWEEN('2020-02-29', '2019-12-31')", "MONTHS_BETWEEN(inst, inst2, flag)",
         "NEXT_DAY(day, 'Mon')", "NEXT_DAY(day, 'sunday')", "NEXT_DAY(inst, 'TU')", "NEXT_DAY(day, str)"),
        utc=True,
    ),
    examples(
        ("MAKE_TIMESTAMP(2020, 2, 29, 12, 30, 45.5)", "MAKE_TIMESTAMP(2020, num, 1, num2, 0, 60)",
         "MAKE_TIMESTAMP(num, 1, 1, 0, 0, dec2)", "MAKE_TIMESTAMP_NTZ(2020, 2, num2, 1, 2, 3)",
         "MAKE_TIMESTAMP_LTZ(2020, 1, 1, 1, 1, 1)",
         "TIMESTAMP_SECONDS(big)", "TIMESTAMP_SECONDS(dec)", "TIMESTAMP_SECONDS(dbl)", "TIMESTAMP_MILLIS(big)",
         "TIMESTAMP_MICROS(big)", "UNIX_SECONDS(inst)", "UNIX_MILLIS(inst)", "UNIX_MICROS(inst)", "UNIX_DATE(day)",
         "DATE_FROM_UNIX_DATE(num)", "DAYNAME(day)", "DAYNAME(inst)", "MONTHNAME(day)",
         *(f"FROM_UTC_TIMESTAMP(inst, '{zone}')" for zone in _ZONES),
         *(f"TO_UTC_TIMESTAMP(inst, '{zone}')" for zone in _ZONES),
         "FROM_UTC_TIMESTAMP(inst, IF(num > 0, 'Europe/Paris', 'Asia/Kolkata'))",
         "TO_UTC_TIMESTAMP(inst, IF(num > 0, 'Europe/Paris', 'Asia/Kolkata'))",
         "TO_UTC_TIMESTAMP(TIMESTAMP '2020-03-08 02:30:00', 'America/New_York')",
         "TO_UTC_TIMESTAMP(TIMESTAMP '2020-11-01 01:30:00', 'America/New_York')"),
        utc=True,
    ),
    examples(
        (*(f"DATE_FORMAT(inst, {_text(pattern)})" for pattern in _PATTERNS), "DATE_FORMAT(day, 'yyyy-MM')",
         "DATE_FORMAT(ntz, 'HH:mm')", "DATE_FORMAT('2020-02-29', 'E')", "TO_CHAR(inst, 'yyyy/MM')",
         "TO_VARCHAR(day, 'dd')",
         "DATE_FORMAT(inst, '')", "FROM_UNIXTIME(num)", "FROM_UNIXTIME(num, 'yyyy-MM-dd')",
         "FROM_UNIXTIME(big % 1000000000000)",
         *(f"TO_TIMESTAMP({_text(value)}, {_text(pattern)})" for value, pattern in _READ),
         "TO_TIMESTAMP(born, 'yyyy-MM-dd')", "TO_TIMESTAMP(inst, 'yyyy')", "UNIX_TIMESTAMP(day, 'yyyy')",
         "TRY_TO_TIMESTAMP(born, 'yyyy')",
         "TO_TIMESTAMP(moment, 'yyyy-MM-dd HH:mm:ss')",
         "TO_DATE(born, 'yyyy-M-d')", "TO_DATE(late, 'yyyy/MM/dd')", "TO_DATE('29.02.2020', 'dd.MM.yyyy')",
         "TRY_TO_DATE(born, 'yyyy-MM-dd')",
         "UNIX_TIMESTAMP(inst)", "UNIX_TIMESTAMP(day)", "UNIX_TIMESTAMP(moment)",
         "UNIX_TIMESTAMP(born, 'yyyy-MM-dd')",
         "TO_UNIX_TIMESTAMP(inst)", "TO_UNIX_TIMESTAMP(born, 'yyyy-MM-dd')", "TO_TIMESTAMP_NTZ(born)",
         "TO_TIMESTAMP_LTZ(moment)"),
        utc=True,
    ),
    examples(
        (*(f"EXTRACT({unit} FROM {name})" for unit in ("YEAROFWEEK", "DOW_ISO", "DAYOFWEEK_ISO", "QTR",
         "MON") for name in ("day", "ntz")),
         "DATE_PART('YEAR', day)", "DATE_PART('seconds', ntz)", "DATEPART('DOW', day)", "DATE_PART('week', ntz)",
         "EXTRACT(DAYS FROM ntz)", "EXTRACT(MINS FROM ntz)", "EXTRACT(HRS FROM ntz)"),
    ),
)  # fmt: skip
