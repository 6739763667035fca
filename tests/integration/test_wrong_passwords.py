"""Too many wrong passwords: of one user, and from one address, at both doors."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from tests import factories

LIMIT = 10
RIGHT = "correct horse battery"
DOORS = ("/login/", "/admin/login/")


@pytest.fixture(autouse=True)
def ada(settings: Any) -> User:
    # A slow one would be most of the time.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    person = factories.user("ada", superuser=True)
    person.set_password(RIGHT)
    person.save()
    return person


def sign_in(
    password: str, *, user: str = "ada", address: str = "192.0.2.1", door: str = "/login/"
) -> Any:
    """Try to sign in, with a new browser."""
    sent = {"username": user, "password": password}
    return Client(REMOTE_ADDR=address).post(door, sent)


def refused(answer: HttpResponse) -> bool:
    """Return whether no password was looked at; what is said then is checked."""
    if answer.status_code != 429:
        return False
    assert answer.headers["Retry-After"] == "900"
    assert b"Further passwords are refused for 15 minutes." in answer.content
    return True


@pytest.mark.parametrize("door", DOORS)
def test_after_ten_wrong_passwords_the_right_one_is_refused(door: str) -> None:
    statuses = [sign_in(f"wrong {each}", door=door).status_code for each in range(LIMIT)]
    assert statuses == [200] * (LIMIT - 1) + [429]
    assert refused(sign_in(RIGHT, door=door))


def test_both_doors_count_together() -> None:
    for each in range(LIMIT):
        sign_in("wrong", door=DOORS[each % 2])
    assert [refused(sign_in(RIGHT, door=door)) for door in DOORS] == [True, True]


def test_a_user_is_guarded_against_many_addresses() -> None:
    for each in range(LIMIT):
        sign_in("wrong", address=f"192.0.2.{each}")
    assert refused(sign_in(RIGHT, address="198.51.100.1"))
    # Others sign in from there.
    factories.user("bob").set_password("x")
    assert not refused(sign_in("wrong", user="bob", address="198.51.100.1"))


def test_an_address_cannot_go_through_many_users() -> None:
    for each in range(LIMIT):
        sign_in("wrong", user=f"user{each}")
    assert refused(sign_in(RIGHT))
    assert sign_in(RIGHT, address="198.51.100.1").status_code == 302


def test_an_ipv6_host_has_one_address() -> None:
    for each in range(LIMIT):
        sign_in("wrong", user=f"user{each}", address=f"2001:db8::{each}")
    assert refused(sign_in(RIGHT, address="2001:db8::ffff"))


def test_a_right_password_between_gives_no_new_tries(ada: User) -> None:
    """Else somebody who may sign in could guess another user's for ever."""
    bob = factories.user("bob")
    bob.set_password(RIGHT)
    bob.save()
    for _ in range(LIMIT - 1):
        sign_in("wrong")
    assert sign_in(RIGHT, user="bob").status_code == 302
    assert refused(sign_in("wrong"))


def test_further_attempts_do_not_lengthen_the_lock() -> None:
    for _ in range(LIMIT + 5):
        sign_in("wrong")
    # A slow machine may take some seconds for an attempt.
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(seconds=840))
    assert refused(sign_in("wrong"))
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(seconds=901))
    assert sign_in(RIGHT).status_code == 302


def test_signed_in_users_stay_signed_in(ada: User) -> None:
    browser = Client()
    browser.force_login(ada)
    for _ in range(LIMIT):
        sign_in("wrong")
    assert browser.get("/").status_code == 200
    api = Client(headers={"Authorization": f"Bearer {factories.token(ada)}"})
    assert api.get("/api/v2/whoami/").status_code == 200


@pytest.mark.parametrize(
    "command", [("axes_reset_username", "ada"), ("axes_reset_ip", "192.0.2.1"), ("axes_reset",)]
)
def test_an_operator_ends_the_wait(command: tuple[str, ...]) -> None:
    for _ in range(LIMIT):
        sign_in("wrong")
    call_command(*command)
    assert sign_in(RIGHT).status_code == 302


@pytest.mark.parametrize("password", ["stm2stm2", "ustm2stm2", "password123", "84629461", "short"])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="ustm2stm2"))
    validate_password(RIGHT, User(username="ustm2stm2"))
