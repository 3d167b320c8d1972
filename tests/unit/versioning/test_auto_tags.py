"""Tags that make themselves. The cases of the watermark are those of Java's `TagAutoManagerTest`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paimon_spark.errors import InvalidInputError, InvalidOptionError, OperationInProgressError
from paimon_spark.maintenance.change import change_table
from paimon_spark.metadata.tags import get_tag
from paimon_spark.versioning.auto_tags import AutoTags, create_automatic_tags, run_automatic_tags
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.tags import create_tag, expire_tags
from tests.harness.history import History

NOW = datetime(2024, 5, 6, 7, 8, 9)
HOURLY = {"tag__automatic_creation": "watermark", "tag__creation_period": "hourly"}
BATCH = {"tag__automatic_creation": "batch", "sink__process_time_zone": "UTC"}
DAILY = {"tag__automatic_creation": "watermark"}


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def commit(history: History, *watermarks: str) -> AutoTags:
    """Commit with each watermark, and make the tags that are due each time."""
    done = AutoTags()
    for text in watermarks:
        snapshot = history.commit(watermark=ms(text))
        done = run_automatic_tags(history.on(), snapshot, clock=lambda: NOW)
    return done


class TestWatermark:
    def test_tags(self) -> None:
        history = History(**HOURLY, tag__num_retained_max="3")
        assert commit(history, "2023-07-18T12:12:00") == AutoTags(("2023-07-18 11",))
        assert commit(history, "2023-07-18T12:59:00") == AutoTags()
        assert history.tags() == ["2023-07-18 11"]
        commit(history, "2023-07-18T13:00:00")
        assert history.tags() == ["2023-07-18 11", "2023-07-18 12"]
        done = commit(history, "2023-07-18T14:00:00", "2023-07-18T15:00:00")
        assert done == AutoTags(("2023-07-18 14",), ("2023-07-18 11",))
        assert history.tags() == ["2023-07-18 12", "2023-07-18 13", "2023-07-18 14"]
        commit(history, "2023-07-18T15:01:00", "2023-07-18T15:02:00", "2023-07-18T15:03:00")
        for snapshot_id in range(1, 8):
            history.expire(snapshot_id)
        commit(history, "2023-07-18T15:04:00", "2023-07-18T16:00:00")
        assert history.tags() == ["2023-07-18 13", "2023-07-18 14", "2023-07-18 15"]

    def test_delay(self) -> None:
        history = History(**HOURLY, tag__creation_delay="10 s")
        commit(history, "2023-07-18T12:00:09")
        assert history.tags() == ["2023-07-18 11"]
        commit(history, "2023-07-18T13:00:09")
        assert history.tags() == ["2023-07-18 11"]
        commit(history, "2023-07-18T13:00:10")
        assert history.tags() == ["2023-07-18 11", "2023-07-18 12"]

    def test_zone_of_the_watermark_and_snapshots_without_one(self) -> None:
        history = History(**HOURLY, sink__watermark_time_zone="Asia/Shanghai")
        snapshot = history.commit()
        history.store.arm(None)
        assert run_automatic_tags(history.on(), snapshot) == AutoTags()
        assert history.store.count(path_part="/intent") == 0
        assert history.tags() == []
        commit(history, "2023-07-18T04:00:09", "2023-07-18T05:00:10")
        assert history.tags() == ["2023-07-18 11", "2023-07-18 12"]

    def test_two_hours(self) -> None:
        history = History(tag__automatic_creation="watermark", tag__creation_period="two-hours")
        commit(history, "2023-07-18T12:00:01", "2023-07-18T13:00:01")
        assert history.tags() == ["2023-07-18 10"]
        commit(history, "2023-07-18T14:00:09")
        assert history.tags() == ["2023-07-18 10", "2023-07-18 12"]

    def test_days(self) -> None:
        history = History(**DAILY)
        commit(history, "2023-07-18T12:00:01", "2023-07-19T12:00:01", "2023-07-20T12:00:01")
        assert history.tags() == ["2023-07-17", "2023-07-18", "2023-07-19"]
        assert [get_tag(history.on(), n).snapshot.id for n in history.tags()] == [1, 2, 3]

    def test_another_period(self) -> None:
        history = History(**HOURLY)
        commit(history, "2023-07-18T12:00:09")
        history.set_options(tag__creation_period="daily")
        commit(history, "2023-07-20T12:00:01")
        assert history.tags() == ["2023-07-18 11", "2023-07-19"]

    def test_savepoints_and_other_tags_do_not_count(self) -> None:
        history = History(**HOURLY, tag__num_retained_max="3")
        commit(history, "2023-07-18T12:12:00")
        history.put_tag("savepoint-11", 1)
        create_tag(history.on(), "mine")
        commit(history, "2023-07-18T14:00:00")
        assert history.tags() == ["2023-07-18 11", "2023-07-18 13", "mine", "savepoint-11"]
        commit(history, "2023-07-18T15:00:00", "2023-07-18T16:00:00")
        assert history.tags() == ["2023-07-18 13", "2023-07-18 14", "2023-07-18 15", "mine", "savepoint-11"]

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            ({"tag__period_formatter": "without_dashes"}, ["20230717", "20230718"]),
            (
                {"tag__period_formatter": "without_dashes", "tag__creation_period": "hourly"},
                ["20230718 11", "20230719 12"],
            ),
            (
                {"tag__period_formatter": "without_dashes_and_spaces", "tag__creation_period": "hourly"},
                ["2023071811", "2023071912"],
            ),
            ({"tag__creation_period_duration": "30 min"}, ["202307181130", "202307191230"]),
        ],
    )
    def test_names(self, options: dict[str, str], names: list[str]) -> None:
        history = History(tag__automatic_creation="watermark", **options)
        commit(history, "2023-07-18T12:12:00", "2023-07-19T13:13:00")
        assert history.tags() == names

    def test_names_that_are_numbers_go_too(self) -> None:
        history = History(**DAILY, tag__period_formatter="without_dashes", tag__num_retained_max="1")
        commit(history, "2023-07-18T12:12:00")
        assert history.tags() == ["20230717"]
        assert commit(history, "2023-07-19T12:12:00") == AutoTags(("20230718",), ("20230717",))

    def test_periods_without_commits_are_made_up_for_one_a_commit(self) -> None:
        history = History(**HOURLY, tag__num_retained_max="3", tag__automatic_completion="true")
        commit(history, "2024-06-26T16:12:00", "2024-06-26T18:05:00")
        assert history.tags() == ["2024-06-26 15", "2024-06-26 16"]
        commit(history, "2024-06-26T18:10:00")
        assert history.tags() == ["2024-06-26 15", "2024-06-26 16", "2024-06-26 17"]

    def test_tags_live_as_long_as_all_do(self) -> None:
        history = History(**HOURLY, tag__num_retained_max="3", tag__default_time_retained="500 ms")
        commit(history, "2023-07-18T12:12:00", "2023-07-18T14:00:00", "2023-07-18T15:12:00", "2023-07-18T16:00:00")
        create_tag(history.on(), "soon", time_retained="500 ms", clock=lambda: NOW)
        create_tag(history.on(), "later", time_retained="1 d", clock=lambda: NOW)
        commit(history, "2023-07-18T19:00:00")
        gone = expire_tags(history.on(), clock=lambda: NOW + timedelta(milliseconds=500))
        assert gone.tags == ()
        expire_tags(history.on(), clock=lambda: NOW + timedelta(milliseconds=501))
        assert history.tags() == ["later"]

    def test_a_snapshot_with_a_tag_by_time_gets_no_second_one(self) -> None:
        history = History(**DAILY)
        commit(history, "2023-07-18T12:00:00")
        second = history.commit(watermark=ms("2023-07-19T12:00:00"))
        create_tag(history.on(), "2020-01-01")
        assert run_automatic_tags(history.on(), second) == AutoTags()
        assert history.tags() == ["2020-01-01", "2023-07-17"]

    def test_a_watermark_beyond_all_calendars_makes_no_tag(self) -> None:
        history = History(**DAILY)
        commit(history, "2023-07-18T12:00:00")
        assert run_automatic_tags(history.on(), history.commit(watermark=2**63 - 1)) == AutoTags()


class TestProcessTime:
    def test_the_zone_says_when_a_day_ends(self) -> None:
        names = {}
        for zone in ("UTC", "Asia/Shanghai", "GMT-08:00"):
            history = History(tag__automatic_creation="process-time", sink__process_time_zone=zone)
            for at in ("2024-01-01T15:00:00", "2024-01-01T17:00:00", "2024-01-02T09:00:00"):
                run_automatic_tags(history.on(), history.commit(at_ms=ms(at)))
            names[zone] = [(n, get_tag(history.on(), n).snapshot.id) for n in history.tags()]
        assert names == {
            "UTC": [("2023-12-31", 1), ("2024-01-01", 3)],
            "Asia/Shanghai": [("2023-12-31", 1), ("2024-01-01", 2)],
            "GMT-08:00": [("2023-12-31", 1), ("2024-01-01", 3)],
        }

    def test_snapshots_of_others_are_caught_up_with(self) -> None:
        history = History(tag__automatic_creation="process-time", sink__process_time_zone="UTC")
        for day in (1, 1, 2, 4, 4, 5):
            history.commit(at_ms=ms(f"2024-01-0{day}T10:00:00"))
        assert create_automatic_tags(history.on()).created == ("2023-12-31", "2024-01-01", "2024-01-03", "2024-01-04")
        assert [get_tag(history.on(), n).snapshot.id for n in history.tags()] == [1, 3, 4, 6]
        assert create_automatic_tags(history.on()) == AutoTags()

    def test_a_commit_for_which_no_tag_is_due_looks_at_the_tags_once(self) -> None:
        history = History(tag__automatic_creation="process-time", sink__process_time_zone="UTC")
        for hour in range(10):
            snapshot = history.commit(at_ms=ms(f"2024-01-01T0{hour}:00:00"))
        run_automatic_tags(history.on(), snapshot)
        handle = history.on()
        history.store.arm(None)
        run_automatic_tags(handle, snapshot)
        assert [c.verb for c in history.store.calls] == ["list"]
        history.store.arm(None)
        run_automatic_tags(History().on(), snapshot)
        assert history.store.calls == []


class TestBatch:
    def run(self, history: History, at: str) -> AutoTags:
        return run_automatic_tags(history.on(), history.commit(at_ms=ms(at), overwrite=True))

    def test_each_batch_moves_the_tag_of_its_day(self) -> None:
        history = History(**BATCH)
        for at in ("2024-01-01T10:00:00", "2024-01-01T11:00:00", "2024-01-02T11:00:00"):
            assert self.run(history, at).created == (f"batch-write-{at[:10]}",)
        assert [(n, get_tag(history.on(), n).snapshot.id) for n in history.tags()] == [
            ("batch-write-2024-01-01", 2),
            ("batch-write-2024-01-02", 3),
        ]

    def test_a_name_of_its_own(self) -> None:
        history = History(**BATCH, tag__batch__customized_name="newest")
        self.run(history, "2024-01-01T10:00:00")
        self.run(history, "2024-01-02T10:00:00")
        assert history.tags() == ["newest"]
        assert get_tag(history.on(), "newest").snapshot.id == 2

    def test_a_name_that_no_tag_can_have(self) -> None:
        history = History(**BATCH, tag__batch__customized_name="savepoint-1")
        with pytest.raises(InvalidInputError, match="'savepoint-1' cannot be the name of a tag"):
            self.run(history, "2024-01-01T10:00:00")

    def test_the_oldest_tags_go_but_no_savepoint_and_no_guard(self) -> None:
        history = History(**BATCH, tag__num_retained_max="2")
        self.run(history, "2024-01-01T10:00:00")
        history.put_tag("savepoint-1", 1)
        history.put_tag("mine", 1)
        create_branch(history.on(), "fix", snapshot_id=1)
        done = self.run(history, "2024-01-02T10:00:00")
        assert done.created == ("batch-write-2024-01-02",)
        assert len(done.deleted) == 1
        done = self.run(history, "2024-01-03T10:00:00")
        assert history.tags() == [
            "batch-write-2024-01-02", "batch-write-2024-01-03", "branch-guard-fix", "savepoint-1",
        ]  # fmt: skip


def test_a_delay_as_long_as_the_period_is_refused() -> None:
    history = History(**HOURLY, tag__creation_delay="60 min")
    with pytest.raises(InvalidOptionError, match=r"tag\.creation-delay of table db\.t is 1:00:00, but must be shorter"):
        commit(history, "2023-07-18T12:00:00")


def test_a_zone_that_is_none_is_refused() -> None:
    history = History(**HOURLY, sink__watermark_time_zone="Mars/Olympus")
    with pytest.raises(InvalidOptionError, match="no time zone is called 'Mars/Olympus'"):
        commit(history, "2023-07-18T12:00:00")


def test_a_busy_table_is_left_alone_when_asked() -> None:
    history = History(**HOURLY)
    snapshot = history.commit(watermark=ms("2023-07-18T12:00:00"))

    def meanwhile() -> None:
        with pytest.raises(OperationInProgressError):
            run_automatic_tags(history.on(), snapshot, wait_ms=0)

    change_table(history.on(), "test", meanwhile)
    assert history.tags() == []
