"""What Apache's Java clients were answered by Apache's servers, the embedded servers answer too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from embedded_tubemq.broker.fetch import Fetcher
from tests.recorder.comparing import Names, differences, translated
from tests.recorder.exchanges import Exchange, Recording
from tests.recorder.replay import KEPT, embedded, replay
from tests.recorder.scenario import STEPS
from tubeclient.wire.envelope import decode_request, decode_response, encode_request, encode_response
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load(KEPT)


def test_the_embedded_servers_answer_as_apaches_did(recording: Recording, tmp_path: Path) -> None:
    with embedded(recording, tmp_path / "tube") as (tube, wait_until):
        assert replay(recording, tube, wait_until) == []


def test_a_difference_is_named(recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Fetcher.fetch

    def lying(*given: Any, **named: Any) -> bytes:
        answer = broker_pb2.GetMessageResponseB2C.FromString(honest(*given, **named))
        answer.maxOffset -= 28
        return answer.SerializeToString()

    monkeypatch.setattr(Fetcher, "fetch", lying)
    with embedded(recording, tmp_path / "tube") as (tube, wait_until):
        found = replay(recording, tube, wait_until)
    assert any("(fetch, GET_MESSAGES to broker 1): maxOffset: 336 was recorded, 308 replayed" in text for text in found)


@pytest.mark.parametrize(("code", "differ"), [(404, []), (452, ["minLimitTime: 0 was recorded, -1 replayed"])])
def test_an_answer_without_messages_names_no_time_in_two_ways(code: int, differ: list[str]) -> None:
    one, other = (
        Method.GET_MESSAGES.spec.response(success=False, errCode=code, errMsg="none", minLimitTime=time)
        for time in (0, -1)
    )
    assert differences(one, other, Names()) == differ


def granted(token: int) -> Any:
    answer: Any = Method.PRODUCER_HEARTBEAT.spec.response(success=True, errCode=200, errMsg="OK!", brokerCheckSum=1)
    answer.authorizedInfo.visitAuthorizedToken = token
    return answer


def test_each_master_renews_its_visit_token_at_a_moment_of_its_own() -> None:
    names = Names()
    for recorded, replayed in ((10, 100), (10, 200), (20, 200), (20, 300)):
        assert differences(granted(recorded), granted(replayed), names) == []
    request: Any = Method.SEND_MESSAGE.spec.request()
    for recorded, shown in ((10, 200), (20, 300), (-2, -2)):
        request.authInfo.visitAuthorizedToken = recorded
        other: Any = translated(request, names, 0)
        assert other.authInfo.visitAuthorizedToken == shown
    for older in (200, -2):
        assert len(differences(granted(20), granted(older), names)) == 1


def test_every_step_and_every_call_was_recorded(recording: Recording) -> None:
    assert list(dict.fromkeys(exchange.step for exchange in recording.exchanges)) == [step.__name__ for step in STEPS]
    balanced_by_the_master = {Method.CONSUMER_REGISTER, Method.CONSUMER_HEARTBEAT}
    assert {exchange.method for exchange in recording.exchanges} == set(Method) - balanced_by_the_master


def test_refusals_were_recorded_too(recording: Recording) -> None:
    codes = {fields.errCode for fields in map(answer_of, recording.exchanges)}
    assert codes >= {200, 400, 401, 403, 404, 410, 411, 412, 425, 426, 429, 430, 431}


def answer_of(exchange: Exchange) -> Any:
    return exchange.answer


def test_our_messages_have_every_field_that_apache_sends(recording: Recording) -> None:
    for exchange in recording.exchanges:
        for message in (exchange.request, exchange.answer):
            assert not len(UnknownFieldSet(message)), message


def test_our_envelopes_are_apaches_byte_for_byte(recording: Recording) -> None:
    for exchange in recording.exchanges:
        request = decode_request(exchange.request_stream)
        again = encode_request(request.service, request.method_id, request.body, request.timeout_ms)
        assert again == exchange.request_stream
        body = decode_response(exchange.answer_stream, request.method_id)
        assert encode_response(request.method_id, body) == exchange.answer_stream


def test_what_people_read_in_the_file_is_what_the_streams_say(recording: Recording, tmp_path: Path) -> None:
    recording.save(tmp_path / "again")
    assert (tmp_path / "again").read_text() == KEPT.read_text()
