from reprise_client.cli.changes import differences, retry_changes


def test_options_go_over_the_file() -> None:
    given = {"image": "a:1", "environ": {"A": "1", "B": None}, "priority": 1}
    assert retry_changes(given, "a:2", {"A": "2"}) == {
        "image": "a:2",
        "environ": {"A": "2", "B": None},
        "priority": 1,
    }
    assert retry_changes({}, None, {}) == {}


def test_two_sessions_are_compared_field_by_field() -> None:
    first = {"id": "1", "image": "a:1", "environ": {"A": "1", "B": "2"}, "exit_code": None}
    second = {"id": "2", "image": "a:2", "environ": {"A": "1", "C": "3"}, "exit_code": 1}
    assert differences(first, second) == [
        ("image", "a:1", "a:2"),
        ("environ.B", "2", "-"),
        ("environ.C", "-", "3"),
        ("exit_code", "-", 1),
    ]
    assert differences(first, first) == []
