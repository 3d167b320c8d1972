{# What dbt-spark must know of Paimon tables: copy this file into your project.

   dbt-spark allows MERGE and snapshots for the formats that it lists only, and drops tables to make them anew. Here they are
   replaced in place, which keeps their snapshots, tags and branches. #}

{% macro dbt_spark_validate_get_file_format(raw_file_format) %}
  {{ return('paimon' if raw_file_format == 'paimon' else dbt.dbt_spark_validate_get_file_format(raw_file_format)) }}
{% endmacro %}

{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {% set allowed_as = 'delta' if file_format == 'paimon' else file_format %}
  {{ return(dbt.dbt_spark_validate_get_incremental_strategy(raw_strategy, allowed_as)) }}
{% endmacro %}

{% macro spark__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- set sql = dbt.spark__create_table_as(temporary, relation, compiled_code, language) -%}
  {{ sql if temporary else sql | replace('create table', 'create or replace table', 1) }}
{%- endmacro %}

{% macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {{ return(dbt.default__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
{% endmacro %}

{% macro spark__alter_column_comment(relation, column_dict) %}
  {% for name, column in column_dict.items() %}
    {% do run_query("comment on column " ~ relation ~ "." ~ adapter.quote(name) ~ " is '" ~
      column.description | replace("\\", "\\\\") | replace("'", "\\'") ~ "'") %}
  {% endfor %}
{% endmacro %}

{% materialization table, adapter='spark' %}
  {% set target_relation = this.incorporate(type='table') %}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') %}{{ create_table_as(False, target_relation, compiled_code) }}{% endcall %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{% materialization incremental, adapter='spark' %}
  {% if should_full_refresh() %}
    {{ return(materialization_table_spark()) }}
  {% endif %}
  {{ return(dbt.materialization_incremental_spark()) }}
{% endmaterialization %}

{% materialization snapshot, adapter='spark' %}
  {% set target_exists, target_relation = get_or_create_relation(
      database=none, schema=model.schema, identifier=model.get('alias', model.name), type='table') %}
  {{ run_hooks(pre_hooks) }}
  {% set strategy = strategy_dispatch(config.get('strategy'))(
      model, 'snapshotted_data', 'source_data', model.config, target_exists) %}
  {% if target_exists %}
    {% do adapter.valid_snapshot_target(target_relation, config.get('snapshot_table_column_names') or
      get_snapshot_table_column_names()) %}
    {% set staging = make_temp_relation(target_relation).incorporate(type='view') %}
    {% call statement('stage') %}
      {{ create_temporary_view(staging, snapshot_staging_table(strategy, model.compiled_code, target_relation)) }}
    {% endcall %}
    {% do create_columns(target_relation, adapter.get_missing_columns(staging, target_relation)
      | rejectattr('name', 'in', ['dbt_change_type', 'dbt_unique_key']) | list) %}
    {% call statement('main') %}{{ snapshot_merge_sql(target_relation, staging, []) }}{% endcall %}
    {% do adapter.drop_relation(staging) %}
  {% else %}
    {% call statement('main') %}
      {{ create_table_as(False, target_relation, build_snapshot_table(strategy, model.compiled_code)) }}
    {% endcall %}
  {% endif %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
