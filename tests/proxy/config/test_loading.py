from __future__ import annotations

from pathlib import Path

import pytest

from proxy.config import load_config
from proxy.config.loading import check_serving, is_loopback
from proxy.config.sections import Config, ServerConfig
from proxy.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    return load_config(write(folder, text), environ=environ or {"UNDERCLIFF_DATA_DIR": str(folder)})


def test_defaults_need_no_file(tmp_path: Path) -> None:
    config = load_config(environ={"UNDERCLIFF_DATA_DIR": str(tmp_path)})
    assert (config.server.host, config.server.port) == ("127.0.0.1", 4272)
    assert config.upstream.url == "https://api.openai.com/v1"
    assert config.store.url == str(tmp_path / "undercliff.db")
    assert config.policy.name == "sticky"


def test_without_a_data_folder_the_users_own_is_taken() -> None:
    url = load_config(environ={}).store.url
    assert url.endswith("undercliff.db")
    assert "undercliff" in Path(url).parent.name


def test_config_path_from_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 5000\n")
    assert load_config(environ={"UNDERCLIFF_CONFIG": str(path)}).server.port == 5000


def test_the_process_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERCLIFF_CONFIG", str(write(tmp_path, "[server]\nport = 5001\n")))
    assert load_config().server.port == 5001


def test_overrides_win(tmp_path: Path) -> None:
    path = write(tmp_path, '[server]\nport = 5000\nhost = "::1"\n')
    config = load_config(path, {"server.port": 6000, "policy.name": "last_n"}, environ={})
    assert (config.server.port, config.server.host, config.policy.name) == (6000, "::1", "last_n")


def test_every_kind_of_value(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [server]
        hold_head_s = 2
        [upstream]
        verify_tls = false
        [policy]
        name = "mine:Policy"
        options = { keep = 4, deep = { a = [1] } }
        [window]
        never_mask = ["*.rules"]
        [models."gpt-5*"]
        cliff = 272_000
        input_price = 0
        [overflow]
        patterns = ['too\\s+long']
        [log]
        format = "json"
        """,
    )
    assert config.server.hold_head_s == 2.0
    assert config.upstream.verify_tls is False
    assert config.policy.options == {"keep": 4, "deep": {"a": [1]}}
    assert config.window.never_mask == ("*.rules",)
    assert config.models["gpt-5*"].cliff == 272_000
    assert config.models["gpt-5*"].input_price == 0.0
    assert config.overflow.patterns == (r"too\s+long",)


def test_the_longer_model_pattern_wins_setting_by_setting(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [models."*"]
        window = 100
        cliff = 50
        [models."gpt-5*"]
        window = 200
        [models."gpt-5-mini"]
        cliff = 0
        """,
    )
    mini = config.model("gpt-5-mini")
    assert (mini.window, mini.cliff, mini.input_price) == (200, 0, None)
    assert config.model("other").window == 100


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[server]\nprot = 1", "server.prot is no setting", "server.port"),
        ("[sever]\nport = 1", "no section [sever]", "[server]"),
        ("[quite-different]\nport = 1", "no section [quite-different]", "Known: server"),
        ("[server]\nmask_chars = 1", "server.mask_chars is no setting", "window.mask_chars"),
        ('[upstream]\nkey = "x"', "upstream.key is no setting", "upstream.key_env"),
        ("port = 1", "port stands outside its section", "[server]"),
        ("server = 1", "server = 1 stands where a section", "[server]"),
        ('[server]\nport = "4272"', "server.port = '4272' must be a whole number", "port = 10"),
        ("[server]\nport = 1.5", "server.port = 1.5 must be a whole number", "port"),
        ("[server]\nport = true", "server.port = True must be a whole number", "port"),
        ("[server]\nport = 70000", "server.port = 70000 is too large", "65535 or less"),
        ("[server]\nport = -1", "server.port = -1 is too small", "0 or more"),
        ('[server]\nkeep_alive_s = "75"', "server.keep_alive_s = '75' must be a number", "1.5"),
        ("[server]\nkeep_alive_s = nan", "server.keep_alive_s = nan is too small", "1 or more"),
        ("[server]\nhost = 1", "server.host = 1 must be a text", 'host = "text"'),
        ('[server]\nallow_public = "yes"', "must be true or false", "allow_public = true"),
        ('[window]\nnever_mask = "x"', "window.never_mask = 'x' must be a list of texts", "["),
        ("[window]\nnever_mask = [1]", "must be a list of texts", "["),
        ('[log]\nformat = "jsno"', "log.format = 'jsno' is not one of console, json", '"json"'),
        ("[policy]\noptions = 1", "policy.options = 1 is no table", "[policy.options]"),
        ("[policy]\noption = {}", "policy.option is no setting", "policy.options"),
        ("[models]\nwindow = 1", "models.window = 1", '[models."gpt-5*"]'),
        ('[models."m"]\nwidnow = 1', 'models."m".widnow is no setting', "window"),
        ('[models."m"]\nwindow = "1"', "models.\"m\".window = '1' must be a whole number", "window = 10"),
        ('[upstream]\nurl = "api.openai.com"', "names no scheme", "https://api.openai.com"),
        ('[upstream]\nkey_env = "sk-abc-123"', "must be the name of an environment variable", "OPENAI_API_KEY"),
        ('[store]\nurl = "mysql://h/d"', "store.url has the scheme 'mysql'", "sqlite:///path"),
        ('[overflow]\nvetoes = ["("]', "overflow.vetoes: '(' is no regular expression", "quotes"),
        ("[server\n", "is not valid TOML", "quotes"),
        ('[server]\nhost = "${NOWHERE}"', "server.host needs the environment variable NOWHERE", "Set NOWHERE"),
    ],
)
def test_refusals_name_key_value_and_remedy(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "absent.toml", environ={})
    (tmp_path / "latin.toml").write_bytes(b'[server]\nhost = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "latin.toml", environ={})


def test_client_keys_come_from_the_environment_and_split(tmp_path: Path) -> None:
    text = '[server]\nclient_keys = ["plain", "${TEAM_KEYS}"]'
    config = load(tmp_path, text, {"TEAM_KEYS": "one, two\nthree"})
    assert config.server.client_keys == ("plain", "one", "two", "three")


@pytest.mark.parametrize("environ", [{}, {"TEAM_KEYS": ""}])
def test_a_missing_key_variable_never_opens_the_door(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"server\.client_keys needs the environment variable TEAM_KEYS"):
        load(tmp_path, '[server]\nclient_keys = ["${TEAM_KEYS}"]', environ)


@pytest.mark.parametrize(("environ", "key"), [({"KEY": " sk-1 \n"}, "sk-1"), ({"KEY": ""}, ""), ({}, "")])
def test_managed_key(tmp_path: Path, environ: dict[str, str], key: str) -> None:
    config = load(tmp_path, '[upstream]\nkey_env = "KEY"', environ)
    assert config.upstream.is_managed
    assert config.upstream.key == key


def test_pass_through_is_the_default() -> None:
    config = load_config(environ={"OPENAI_API_KEY": "sk-1", "": "sk-2"})
    assert not config.upstream.is_managed
    assert config.upstream.key == ""


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    text = '[server]\nclient_keys = ["s3cret-a"]\n[upstream]\nkey_env = "KEY"'
    config = load(tmp_path, text, {"KEY": "s3cret-b"})
    assert "s3cret" not in repr(config)
    assert config.secrets == ("s3cret-a", "s3cret-b")
    assert Config().secrets == ()
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[server]\nclient_keys = "s3cret-c"')
    assert "s3cret" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    check_serving(ServerConfig(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "proxy.example", ""])
def test_beyond_loopback_needs_keys_or_a_word(host: str) -> None:
    with pytest.raises(ConfigError, match="no client keys") as caught:
        check_serving(ServerConfig(host=host))
    assert "--allow-public" in caught.value.hint
    check_serving(ServerConfig(host=host, client_keys=("k",)))
    check_serving(ServerConfig(host=host, allow_public=True))
