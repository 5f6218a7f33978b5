"""Long work: it is told of, it can be ended, and it leaves the interpreter to others."""

import signal
import sys
import threading

import phidias
import pytest
from phidias.progress import Bar, told

CLEAN, CORRUPT = "the cat sat", "the dog sat"
METRIC = phidias.logit_diff(97, 98)


def works(tiny, tmp_path, progress):
    """Everything that can be told of, each by its name."""
    return {
        "collect": lambda: phidias.collect(
            tiny, ["abc", "de"], "layers[0].layer_output", tmp_path, progress=progress
        ),
        "patch_sweep": lambda: phidias.patch_sweep(tiny, CLEAN, CORRUPT, METRIC, progress=progress),
        "ablation_sweep": lambda: phidias.ablation_sweep(tiny, CLEAN, METRIC, progress=progress),
        "run_variations": lambda: phidias.run_variations(
            tiny, CLEAN, [phidias.skip_layers(1, 1)] * 3, METRIC, progress=progress
        ),
        "attribute": lambda: phidias.attribute(
            tiny, CLEAN, CORRUPT, METRIC, "layers[1].layer_output", method="integrated", steps=3,
            progress=progress,
        ),
        "drop": lambda: phidias.attribute(
            tiny, CLEAN, CORRUPT, METRIC, "layers[1].layer_output", drop=True, progress=progress
        ),
        "perplexity": lambda: tiny.perplexity("a longer text " * 8, window=16, progress=progress),
        "generate": lambda: tiny.generate(["a", "b", "c"], max_new_tokens=2, progress=progress),
        "trace": lambda: tiny.trace(["a", "b", "c"], progress=progress).run(),
    }  # fmt: skip


NAMES = (
    "collect patch_sweep ablation_sweep run_variations attribute drop perplexity generate trace".split()
)


@pytest.mark.parametrize("name", NAMES)
def test_work_is_told_of_to_its_end(tiny, tmp_path, name):
    steps = []
    works(tiny, tmp_path, lambda done, of: steps.append((done, of)))[name]()
    assert steps == sorted(steps) and steps[-1][0] == steps[-1][1] > 0


@pytest.mark.parametrize("name", NAMES)
def test_work_ends_where_its_listener_says_false(tiny, tmp_path, name):
    steps = []

    def listener(done, of):
        steps.append(done)
        return False

    with pytest.raises(phidias.CancelledError):
        works(tiny, tmp_path, listener)[name]()
    assert len(steps) == 1
    assert tiny.generate("x", max_new_tokens=1, stop_ids=[]).generated_tokens == 1


def test_true_is_a_bar(tiny, tmp_path, capsys):
    for name, work in works(tiny, tmp_path, True).items():
        work()
        assert "100" in capsys.readouterr().err, name


def test_without_tqdm_a_line_stands_in(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with told(True, "sweep") as tell:
        for done in range(401):
            tell(done, 400)
    written = capsys.readouterr().err
    assert written.startswith("\rsweep: 0 %") and written.endswith("\rsweep: 100 %\n")
    assert written.count("\r") == 101  # once a percent, however many steps


def test_a_bar_is_closed_where_the_work_fails(monkeypatch):
    closed = []
    monkeypatch.setattr(Bar, "close", lambda self: closed.append(self))
    with pytest.raises(ZeroDivisionError), told(True, "work"):
        raise ZeroDivisionError
    assert len(closed) == 1


def test_other_threads_run_while_the_engine_works(tiny):
    """The interpreter is told never to take its lock from a thread: another one can run only because
    the engine gives it away."""
    go, ran = threading.Lock(), []
    go.acquire()

    def other():
        go.acquire()
        ran.append(True)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    thread.start()
    try:
        sys.setswitchinterval(1000)
        go.release()
        for _ in range(2000):
            tiny.generate("Once", max_new_tokens=5, stop_ids=[])
            if ran:
                break
        found = bool(ran)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert found


# Ctrl-C.


def interrupt_from_elsewhere(started):
    """Sends the main thread what Ctrl-C does, once `started` is set."""

    def wait():
        started.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_ends_a_run_between_two_of_its_passes(real_path):
    model = phidias.Model(real_path, step_rows=64)
    started, passes = threading.Event(), []

    def first(x, where):
        passes.append(where.position)
        started.set()

    thread = interrupt_from_elsewhere(started)
    with pytest.raises(KeyboardInterrupt):
        with model.trace(list(range(1000, 4000))) as t:
            t.layers[0].layer_input.edit(first)
            t.logits.at("last").save()
    thread.join()
    assert 1 <= len(passes) < 3000 // 64
    assert model.generate("Once", max_new_tokens=2).generated_tokens == 2


def test_ctrl_c_ends_an_answer_and_leaves_those_of_others_alone(tiny):
    options = {"max_new_tokens": 30, "stop_ids": []}
    expected = tiny.generate("other", **options).ids
    found, steps = [], []

    def work():
        found.append(tiny.generate("other", **options).ids)

    thread = threading.Thread(target=work)
    stream = tiny.stream("Once", max_new_tokens=0, stop_ids=[])  # far longer
    with pytest.raises(KeyboardInterrupt):
        for event in stream:
            steps.append(event)
            if len(steps) == 3:
                thread.start()
            if len(steps) == 20:
                signal.raise_signal(signal.SIGINT)
    stream.close()
    assert stream.result.finish_reason == "cancelled"
    thread.join()
    assert found == [expected]
    tiny.generate("x", max_new_tokens=2)
    assert tiny.engine.cache_bytes_in_use == 0


def test_an_interrupted_step_loses_nothing_of_others(tiny, monkeypatch):
    """Wherever in a step of the runner a signal's handler raises."""
    options = {"max_new_tokens": 6, "stop_ids": []}
    expected = tiny.generate("other", **options).ids
    runner = tiny._runner
    for place in range(1, 40):
        stream = tiny.stream("other", **options)
        mine = tiny.stream("mine", **options)
        lines = []

        def tracer(frame, event, argument, place=place, lines=lines):
            if frame.f_code.co_qualname != "Runner._step":
                return tracer if event == "call" else None
            if event == "line":
                lines.append(frame.f_lineno)
                if len(lines) == place:
                    raise KeyboardInterrupt
            return tracer

        sys.settrace(tracer)
        try:
            for _ in mine:
                pass
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        mine.close()
        assert [e.token.id for e in stream if e.token] == expected
        if not interrupted:
            break
    assert place > 5 and not runner._queues


def test_an_exception_of_a_signal_handler_comes_out_of_a_sweep(tiny):
    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Alarm):
            phidias.patch_sweep(
                tiny, CLEAN, CORRUPT, METRIC,
                progress=lambda done, of: signal.raise_signal(signal.SIGUSR1),
            )  # fmt: skip
    finally:
        signal.signal(signal.SIGUSR1, before)
