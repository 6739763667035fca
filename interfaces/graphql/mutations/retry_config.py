"""Mutations of retry defaults and retry settings."""

from typing import Any

import graphene
from graphene.utils.str_converters import to_snake_case

from interfaces.calls import retry_config as operations
from interfaces.calls.retry_config import DefaultsBody, DefaultsPatch, SettingsBody
from interfaces.graphql.context import Context
from interfaces.graphql.mutations.base import Change, expected_of
from interfaces.graphql.mutations.scopes import OfScopeVersion, taken_names
from interfaces.graphql.retry_config import (
    RetryDefaults,
    RetrySettings,
    render_defaults,
    render_settings,
)


def _store_defaults(context: Context, given: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    expected, names = expected_of(given), taken_names(given)
    stored = operations.defaults_store(context.actor, names, given, expected, keep=keep)
    return {"retry_defaults": render_defaults(*stored)}


def _store_settings(context: Context, given: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    expected, names = expected_of(given), taken_names(given)
    stored = operations.settings_store(context.actor, names, given, expected, keep=keep)
    return {"retry_settings": render_settings(*stored)}


class UpdateRetryDefaults(Change, body=DefaultsPatch):
    """Change the given fields of a scope's defaults and bounds. The policy fields in `unset`, such
    as `retryDelay`, are inherited again. All others stay as they are."""

    Input = OfScopeVersion
    retry_defaults = graphene.Field(RetryDefaults)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        """Do what `PATCH /retry-defaults/...` does. Fields in `unset` have their GraphQL names."""
        given["unset"] = [to_snake_case(name) for name in given.get("unset") or ()]
        return _store_defaults(context, given, keep=True)


class ReplaceRetryDefaults(Change, body=DefaultsBody):
    """Replace the defaults and bounds of a scope."""

    Input = OfScopeVersion
    retry_defaults = graphene.Field(RetryDefaults)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _store_defaults(context, given, keep=False)


class DeleteRetryDefaults(Change):
    """Remove the defaults of a scope, so that it inherits everything."""

    Input = OfScopeVersion

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, names = expected_of(given), taken_names(given)
        operations.defaults_delete(context.actor, names, expected)
        return {}


class UpdateRetrySettings(Change, body=SettingsBody):
    """Change the kill switch of a scope, or the given settings of the cluster."""

    Input = OfScopeVersion
    retry_settings = graphene.Field(RetrySettings)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _store_settings(context, given, keep=True)


class ReplaceRetrySettings(Change, body=SettingsBody):
    """Set the kill switch of a scope, and all settings of the cluster. Absent settings get the
    shipped value."""

    Input = OfScopeVersion
    retry_settings = graphene.Field(RetrySettings)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _store_settings(context, given, keep=False)


class DeleteRetrySettings(Change):
    """Reset the settings of a scope. The switch becomes `on`; the cluster gets the shipped limits
    and no default policy."""

    Input = OfScopeVersion

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, names = expected_of(given), taken_names(given)
        operations.settings_delete(context.actor, names, expected)
        return {}


class RetryConfigMutations:
    """The mutations of retry defaults and settings."""

    update_retry_defaults = UpdateRetryDefaults.Field()
    replace_retry_defaults = ReplaceRetryDefaults.Field()
    delete_retry_defaults = DeleteRetryDefaults.Field()
    update_retry_settings = UpdateRetrySettings.Field()
    replace_retry_settings = ReplaceRetrySettings.Field()
    delete_retry_settings = DeleteRetrySettings.Field()
