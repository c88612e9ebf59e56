"""The benchmark of the server: its arithmetic by hand, and real servers of a small run."""

import json
import stat
import sys
from collections import Counter

import pytest

from benchmarks import serve_benchmark, server_process
from benchmarks.decode_benchmark import Round
from benchmarks.sentence_latency import latencies, percentiles, ratios

# What stands at the place of JoeyNMT's Python: it is given the program, a command and a file.
PEER = """#!{python}
import json, sys
_, command, config, *keep = sys.argv[1:]
if command == "train":
    sys.exit()
print(json.dumps({{"versions": {{"joeynmt": "2.3.0"}}, "parameters": 7}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    assert len(asked["lines"]) == asked["batch_size"] == 1 and asked["alpha"] == 1.0
    slow = (asked["threads"] == 1) + (asked["precision"] == "float32") + (not keep)
    answer = {{"seconds": 1.0 + slow, "cpu_seconds": 0.5, "lines": asked["lines"]}}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def bench(trained, tmp_path, benchmark):
    def run(*arguments):
        return benchmark(
            *("serve", "--run", trained[0], "--clients", "3", "--seconds", "1", *arguments)
        )

    return run


def test_percentiles_lie_between_the_neighbours():
    hundred_and_one = [ms / 1000 for ms in reversed(range(101))]
    assert percentiles(hundred_and_one) == {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}
    assert percentiles([0.010, 0.020]) == {"p50_ms": 15.0, "p95_ms": 19.5, "p99_ms": 19.9}
    assert percentiles([0.007]) == {"p50_ms": 7.0, "p95_ms": 7.0, "p99_ms": 7.0}


def test_answers_are_described_by_rate_errors_and_latencies():
    statuses = Counter({"200": 2, "503": 1, "ConnectionResetError": 1})
    answers = serve_benchmark.Answers([0.010, 0.020], statuses)
    assert serve_benchmark.described(answers, 4.0) == {
        "requests": 4,
        "errors": 2,
        "statuses": dict(statuses),
        "requests_per_second": 0.5,
        **percentiles([0.010, 0.020]),
    }
    none = serve_benchmark.described(serve_benchmark.Answers(statuses=Counter({"503": 3})), 4.0)
    assert none["errors"] == 3 and none["requests_per_second"] == 0 and "p50_ms" not in none


BEFORE = """# TYPE bahdanau_batch_lines histogram
bahdanau_batch_lines_bucket{le="1.0",run="a"} 5.0
bahdanau_batch_lines_bucket{le="2.0",run="a"} 5.0
bahdanau_batch_lines_bucket{le="4.0",run="a"} 5.0
bahdanau_batch_lines_bucket{le="+Inf",run="a"} 5.0
bahdanau_batch_lines_count{run="a"} 5.0
bahdanau_batch_lines_sum{run="a"} 5.0
bahdanau_compilations_total 30.0
"""
# Searches of 1, 3, 3 and 6 lines since then, of which the last one belongs to another run.
AFTER = """# TYPE bahdanau_batch_lines histogram
bahdanau_batch_lines_bucket{le="1.0",run="a"} 6.0
bahdanau_batch_lines_bucket{le="2.0",run="a"} 6.0
bahdanau_batch_lines_bucket{le="4.0",run="a"} 8.0
bahdanau_batch_lines_bucket{le="+Inf",run="a"} 8.0
bahdanau_batch_lines_bucket{le="1.0",run="b"} 0.0
bahdanau_batch_lines_bucket{le="2.0",run="b"} 0.0
bahdanau_batch_lines_bucket{le="4.0",run="b"} 0.0
bahdanau_batch_lines_bucket{le="+Inf",run="b"} 1.0
bahdanau_batch_lines_count{run="a"} 8.0
bahdanau_batch_lines_count{run="b"} 1.0
bahdanau_batch_lines_sum{run="a"} 12.0
bahdanau_batch_lines_sum{run="b"} 6.0
bahdanau_compilations_total 32.0
"""


def test_searches_are_counted_by_their_lines_since_the_start_of_the_load():
    before, after = server_process.numbers(BEFORE), server_process.numbers(AFTER)
    assert after["bahdanau_batch_lines_bucket 4.0"] == 8
    assert serve_benchmark.grown(before, after) == {
        "lines_per_search": 3.25,
        "searches": {"1": 1, "3 to 4": 2, "above 4": 1},
        "compilations": 2,
    }
    assert serve_benchmark.grown(after, after)["lines_per_search"] == 0
    first = serve_benchmark.grown({}, after)  # a run that had no request before has no numbers
    assert first["searches"] == {"1": 6, "3 to 4": 2, "above 4": 1}


def test_memory_is_that_of_the_whole_load_and_of_its_second_half():
    mib = [100, 130, 140, 141, 141.5]
    assert serve_benchmark.memory([size * 2**20 for size in mib]) == {
        "resident_mib": [100, 130, 140, 141, 142],
        "growth_mib": 41.5,
        "growth_of_second_half_mib": 1.5,
    }


def test_latencies_are_those_of_all_rounds_and_ratios_those_of_each():
    # Ours writes 2 + 2 tokens with EOS, and the peer 3 + 5.
    ours = [
        Round(0.04, 0.06, ["a", "b"], 2, [0.01, 0.03]),
        Round(0.08, 0.1, ["a", "b"], 2, [0.04] * 2),
    ]
    peer = [
        Round(0.16, 0.2, ["a", "b"], 6, [0.08] * 2),
        Round(0.24, 0.2, ["a", "b"], 6, [0.12] * 2),
    ]
    described = latencies(ours, ["a", "b"])
    assert described["p50_ms"] == 35.0 and described["mean_ms"] == 30.0
    assert described["mean_ms_of_rounds"] == [20.0, 40.0] and described["cpu_ms"] == 40.0
    assert described["tokens_per_sentence"] == 1.0
    assert described["ms_per_token"] == 15.0  # the median of 40 / 4 and 80 / 4
    found = ratios([*zip(ours, peer, strict=True)])
    assert found == {"ratio": 3.5, "ratios": [4.0, 3.0], "ratio_per_token": 1.75}


@pytest.mark.exhaustive
def test_clients_load_real_servers_without_errors(bench):
    code, out, _ = bench("--beams", "1,2")
    found = json.loads(out)
    assert code == 0 and found["clients"] == 3 and "one sentence" not in found
    shared, alone = found["servers"].values()
    for server in (shared, alone):
        loads = [*server["one client"].values(), server["all clients"]]
        assert [*server["one client"]] == ["beam 1", "beam 2"] and server["exit_code"] == 0
        for load in loads:
            assert load["requests"] > 0 and load["errors"] == 0
            assert load["statuses"] == {"200": load["requests"]}
            assert 0 < load["p50_ms"] <= load["p95_ms"] <= load["p99_ms"]
            assert len(load["resident_mib"]) == 5 and load["compilations"] == 0
        for load in server["one client"].values():  # every request is a search of one line
            assert load["searches"] == {"1": load["requests"]} and load["lines_per_search"] == 1
    assert set(alone["all clients"]["searches"]) == {"1"}
    lines = {"1": 1, "2": 2, "3 to 4": 3}  # three clients have at most three lines in a search
    searches = shared["all clients"]["searches"]
    total = sum(lines[name] * count for name, count in searches.items())
    assert total == shared["all clients"]["requests"] and set(searches) != {"1"}


@pytest.mark.exhaustive
def test_one_sentence_is_translated_in_turn_with_joeynmt(bench, tmp_path):
    python = tmp_path / "python"
    python.write_text(PEER.format(python=sys.executable))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    code, out, err = bench(
        *("--joeynmt", python, "--peer-folder", tmp_path / "peer", "--beams", "2"),
        *("--sentences", "4", "--rounds", "3"),
    )
    assert code == 0, err
    found = json.loads(out)["one sentence"]
    beam = found["beams"]["2"]
    joeynmt, as_it_comes = beam["joeynmt"], beam["joeynmt as it comes"]
    assert joeynmt["settings"]["precision"] == "bfloat16"
    assert joeynmt["p50_ms"] == joeynmt["mean_ms"] == 1000.0
    assert as_it_comes["mean_ms_of_rounds"] == [2000.0] * 3
    tokens = found["text"]["source_tokens_per_sentence"]
    assert joeynmt["tokens_per_sentence"] == tokens  # this peer repeats
    assert joeynmt["ms_per_token"] == pytest.approx(1000 / (tokens + 1), abs=0.01)
    own = ("ours served", "ours")
    for name in own:  # both write the same translations
        assert 0 < beam[name]["p50_ms"] <= beam[name]["p95_ms"]
        assert beam[f"{name} over joeynmt"]["ratio"] > 0
        assert beam[f"{name} over joeynmt as it comes"]["ratio"] > 0
        if beam[name]["settings"] == beam["ours"]["settings"]:
            assert beam[name]["tokens_per_sentence"] == beam["ours"]["tokens_per_sentence"]
            assert beam[name]["bleu_lowercased"] == beam["ours"]["bleu_lowercased"]
    assert set(found["counted"]) == {*own, "joeynmt", "joeynmt as it comes"}
    assert found["peers"]["joeynmt"]["updates"] == 1000 and found["text"]["sentences"] == 4


def test_what_cannot_be_is_said_before_any_work(bench, tmp_path):
    for option, least in (("--clients", 1), ("--rounds", 1), ("--peer-updates", 1)):
        code, _, err = bench(option, "0")
        assert code == 2 and f"{option} is 0, but at least {least} is needed" in err
    either = "--joeynmt or --torch-python"
    for option, needed in (("--peer-updates", "--joeynmt"), ("--rounds", either)):
        code, _, err = bench(option, "7")
        assert code == 2 and f"{option} needs {needed}, which is missing" in err
    code, _, err = bench("--seconds", "nan")
    assert code == 2 and "--seconds is nan, but should be a number above 0" in err
    code, _, err = bench("--beams", "0")
    assert code == 2 and "--beams is '0', but should be like 1,2,4" in err
    code, _, err = bench("--run", tmp_path)
    assert code == 2 and "holds no run" in err
    for option in ("--joeynmt", "--torch-python"):
        code, _, err = bench(option, tmp_path / "nowhere")
        assert code == 2 and f"{tmp_path}/nowhere is not an executable file" in err


def test_a_server_that_does_not_start_or_refuses_is_one_line(bench, trained):
    code, _, err = bench("--corpus", "text:no.en,no.fr")
    assert code == 2 and "no.en" in err
    with (
        pytest.raises(ValueError, match="the server ended: .*--batch-lines is 0"),
        server_process.Server(trained[0], ["--batch-lines", "0"]),
    ):
        pass


@pytest.mark.exhaustive
def test_a_refused_request_is_an_error(trained):
    with server_process.Server(trained[0], ["--max-characters", "5"]) as server:
        with pytest.raises(ValueError, match="the server answered 422: .*at most 5 characters"):
            server_process.one_by_one(server, ["The man sleeps."], {})
        load = serve_benchmark.load(server, ["The man sleeps."], 2, 0.5, {})
    assert load["errors"] == load["requests"] > 0 and set(load["statuses"]) == {"422"}
