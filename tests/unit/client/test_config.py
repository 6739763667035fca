import stat
from pathlib import Path

import pytest
from reprise_client import ConfigError
from reprise_client.config import Config, Context, chosen, config_path, load, save

LAB = Context("https://lab.example", "lab-token", "research/vision")
HOME = Context("http://127.0.0.1:8000", "home-token")
BOTH = Config({"lab": LAB, "home": HOME}, current="lab")


def test_the_file_is_private_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    save(BOTH, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load(path) == BOTH


def test_saving_replaces_the_file_at_once_and_tightens_it(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("contexts: {}")
    path.chmod(0o644)
    with path.open() as reader:
        save(BOTH, path)
        assert reader.read() == "contexts: {}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["config.yaml"]


def test_a_linked_file_stays_linked(tmp_path: Path) -> None:
    link = tmp_path / "config.yaml"
    link.symlink_to(tmp_path / "real.yaml")
    save(BOTH, link)
    assert link.is_symlink()
    assert load(tmp_path / "real.yaml") == BOTH


@pytest.mark.parametrize(
    "junk",
    ["[", "- 1", "contexts: 5", "contexts: {a: {}}", "contexts: {a: [1]}", "current: [a]", "\0"],
)
def test_a_broken_file_is_named(tmp_path: Path, junk: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(junk)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load(path)


def test_the_file_is_found_where_the_environment_says() -> None:
    assert config_path({"REPRISE_CONFIG": "/a", "XDG_CONFIG_HOME": "/b"}) == Path("/a")
    assert config_path({"XDG_CONFIG_HOME": "/b"}) == Path("/b/reprise/config.yaml")
    assert config_path({}) == Path.home() / ".config/reprise/config.yaml"


@pytest.mark.parametrize(
    ("name", "environ", "expected"),
    [
        (None, {}, LAB),
        ("home", {}, HOME),
        ("home", {"REPRISE_TOKEN": "other"}, HOME),
        (None, {"REPRISE_PROJECT": "a/b"}, Context(LAB.url, LAB.token, "a/b")),
        (None, {"REPRISE_TOKEN": "other"}, Context(LAB.url, "other", LAB.project)),
        (None, {"REPRISE_URL": "http://x", "REPRISE_TOKEN": "y"}, Context("http://x", "y")),
        (None, {"REPRISE_URL": f"{LAB.url}/"}, Context(f"{LAB.url}/", LAB.token, LAB.project)),
    ],
)
def test_the_closer_setting_wins(
    name: str | None, environ: dict[str, str], expected: Context
) -> None:
    assert chosen(BOTH, name, environ) == expected


def test_a_saved_token_is_not_sent_to_another_server() -> None:
    with pytest.raises(ConfigError, match="no token for http://elsewhere"):
        chosen(BOTH, None, {"REPRISE_URL": "http://elsewhere"})


def test_without_any_server_the_way_to_one_is_said() -> None:
    with pytest.raises(ConfigError, match="reprise login URL"):
        chosen(Config(), None, {})


def test_a_token_is_not_in_what_is_printed_of_a_context() -> None:
    assert "lab-token" not in repr(BOTH)
