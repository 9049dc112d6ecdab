from tests.wire.group_requests import Caller


def listed(caller: Caller, *types: int) -> list[tuple[int, str]]:
    answer = caller.ask("list_config_resources", 1, resource_types=types)
    assert answer.error_code == 0
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_what_has_settings_is_listed(caller: Caller) -> None:
    node = str(caller.node().broker_id)
    assert (2, "orders") in listed(caller, 2)
    assert listed(caller, 4, 16, 32) == [(4, node)]
    everything = listed(caller)
    assert {(2, "orders"), (4, node), (8, node)} <= set(everything)


def test_an_unknown_type_is_refused(caller: Caller) -> None:
    answer = caller.ask("list_config_resources", 1, resource_types=(77,))
    assert (answer.error_code.name, answer.config_resources) == ("unsupported_version", ())


def test_version_0_lists_client_metrics_of_which_there_are_none(caller: Caller) -> None:
    assert caller.ask("list_config_resources", 0).config_resources == ()
