"""The members of a project and the tokens for it, on its pages."""

import re
from typing import Any

import pytest
from django.test import Client

from sessions_app.models import ApiToken, Membership, Project
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Api
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/"
MEMBERS, TOKENS = f"{AT}members/", f"{AT}tokens/"


@pytest.fixture
def above(project: Project) -> Client:
    return signed_in(factories.user("dom", domain=project.domain, role=Role.DOMAIN_ADMIN))


def of(name: str) -> Membership:
    return Membership.objects.get(user__username=name)


class TestMembers:
    def test_an_admin_of_the_domain_gives_changes_and_takes_roles(
        self, project: Project, above: Client
    ) -> None:
        factories.user("new")
        added = above.post(MEMBERS, {"user": "new", "role": "member"}, follow=True)
        assert "new is a member of the project." in words(added)
        assert "new member acme/work" in words(added)
        assert "dom domain admin domain acme" in words(added)
        path = f"{MEMBERS}{of('new').pk}/"
        above.post(path, {"role": "viewer"})
        assert of("new").role == "viewer"
        assert above.post(path, {"role": "domain_admin"}).status_code == 400
        above.post(path, {"confirmed": "1"})
        assert not Membership.objects.filter(user__username="new").exists()

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"user": "nobody", "role": "member"}, "no active user nobody"),
            ({"user": "vic", "role": "member"}, "has a role there already"),
            ({"user": "vic", "role": "domain_admin"}, "not one of the available choices"),
            ({"role": "member"}, "required"),
        ],
    )
    def test_a_mistake_is_told_at_its_field(
        self, above: Client, viewer: Client, sent: dict[str, str], told: str
    ) -> None:
        refused = above.post(MEMBERS, sent)
        assert refused.status_code == 400
        assert re.search(rf'class="error">[^<]*{told}', refused.content.decode()), words(refused)

    def test_others_only_read(self, project: Project, lead: Client, above: Client) -> None:
        factories.user("new")
        assert "lea maintainer acme/work" in read(lead, MEMBERS)
        assert lead.post(MEMBERS, {"user": "new", "role": "member"}).status_code == 403
        assert lead.post(f"{MEMBERS}{of('lea').pk}/", {"confirmed": "1"}).status_code == 403
        stranger = signed_in(factories.user("sam"))
        assert stranger.get(MEMBERS).status_code == 404
        # Neither is a role of the domain, or of another project, changed here.
        elsewhere = factories.user("else", project=factories.project("other"))
        for key in (of("dom").pk, of(elsewhere.username).pk, 2**70):
            assert above.post(f"{MEMBERS}{key}/", {"confirmed": "1"}).status_code == 404
        assert Membership.objects.count() == 3


class TestTokens:
    def make(self, client: Client, **sent: str) -> Any:
        return client.post(TOKENS, {"name": "nightly", **sent})

    def test_a_token_is_shown_once_and_good_for_the_project_alone(
        self, project: Project, lead: Client
    ) -> None:
        made = self.make(lead, read_only="1")
        assert made["Cache-Control"]
        (secret,) = re.findall(r'id="token" tabindex="0">([^<]+)<', made.content.decode())
        who = Api(secret).read("whoami/")
        assert (who["username"], who["project"], who["read_only"]) == ("lea", "acme/work", True)
        assert secret not in lead.get(TOKENS).content.decode()
        path = f"{TOKENS}{secret[:12]}/"
        assert "Revoke the token nightly" in read(lead, path)
        assert "The token nightly is revoked." in words(lead.post(path, follow=True))
        assert not ApiToken.objects.exists()

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({"name": ""}, "required"),
            ({"name": "a\u200bb"}, "invisible"),
            ({"expires_at": "2020-01-01T00:00"}, "in the past"),
            ({"expires_at": "2999-01-01T00:00"}, "within ten years"),
            ({"expires_at": "soon"}, "valid date"),
        ],
    )
    def test_a_mistake_is_told_at_its_field(
        self, lead: Client, sent: dict[str, str], told: str
    ) -> None:
        refused = self.make(lead, **sent)
        assert refused.status_code == 400
        assert re.search(rf'class="error">[^<]*{told}', refused.content.decode()), words(refused)
        assert not ApiToken.objects.exists()

    def test_nobody_sees_or_revokes_those_of_others(
        self, project: Project, lead: Client, viewer: Client
    ) -> None:
        self.make(lead)
        token = ApiToken.objects.get()
        assert "nightly" not in read(viewer, TOKENS)
        assert viewer.post(f"{TOKENS}{token.prefix}/").status_code == 404
        factories.token(token.user)
        other = ApiToken.objects.exclude(pk=token.pk).get()
        assert lead.post(f"{TOKENS}{other.prefix}/").status_code == 404
        assert ApiToken.objects.count() == 2


@pytest.mark.parametrize(("path", "most"), [(MEMBERS, 7), (TOKENS, 6)])
def test_pages_take_a_fixed_number_of_statements(
    project: Project, lead: Client, path: str, most: int
) -> None:
    few = statements(lead, path)
    for number in range(5):
        factories.user(f"more-{number}", project=project)
        lead.post(TOKENS, {"name": f"token {number}"})
    assert statements(lead, path) == few <= most
