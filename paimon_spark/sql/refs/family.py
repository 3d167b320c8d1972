"""What this family gives to `parse` and `execute`."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.grammar.tags_and_branches import read_alter, read_show
from paimon_spark.sql.commands.tags_and_branches import (
    create_branch,
    create_tag,
    drop_branch,
    drop_tags,
    on_table,
    publish_branch,
    rename_branch,
    rename_tag,
)
from paimon_spark.sql.commands.tags_and_branches import show_refs
from paimon_spark.sql.grammar.tags_and_branches import (
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTags,
    PublishBranch,
    Refs,
    RenameBranch,
    RenameTag,
    ShowRefs,
)
from paimon_spark.sql.statement import Family

FAMILY: Final = Family(
    readers={("ALTER", "TABLE"): read_alter, **{("SHOW", what.name): read_show for what in Refs}},
    runners={
        CreateTag: on_table(create_tag),
        DropTags: on_table(drop_tags),
        RenameTag: on_table(rename_tag),
        CreateBranch: on_table(create_branch),
        DropBranch: on_table(drop_branch),
        RenameBranch: on_table(rename_branch),
        PublishBranch: on_table(publish_branch),
        ShowRefs: on_table(show_refs),
    },
)
