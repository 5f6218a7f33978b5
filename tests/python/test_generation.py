"""Answers: whole, streamed, several, side by side."""

import gc
import math
import threading

import numpy as np
import phidias
import pytest


def greedy(model, ids, count):
    """The argmax of the logits, step by step."""
    sequence = model.engine.open(prompt_tokens=len(ids))
    answer = []
    logits = sequence.append(ids)
    for _ in range(count):
        answer.append(int(np.argmax(logits)))
        logits = sequence.append([answer[-1]])
    return answer


def test_an_answer_is_the_argmax_of_the_logits(tiny):
    ids = tiny.encode("Once")
    answer = tiny.generate(ids, max_new_tokens=12, stop_ids=[])
    assert answer.ids == greedy(tiny, ids, 12)
    assert answer.text == str(answer) == tiny.decode(answer.ids, skip_special=True)
    assert (answer.finish_reason, answer.prompt_tokens, answer.generated_tokens) == ("length", 4, 12)
    assert 0 < answer.first_token_seconds <= answer.total_seconds


def test_a_prompt_is_a_text_ids_or_a_conversation(tiny):
    text = tiny.generate("Hi", max_new_tokens=5, stop_ids=[])
    assert text.ids == tiny.generate(tiny.encode("Hi"), max_new_tokens=5, stop_ids=[]).ids
    assert text.ids == tiny.generate(np.array(tiny.encode("Hi")), max_new_tokens=5, stop_ids=[]).ids
    messages = [{"role": "user", "content": "Hi"}]
    chat = tiny.chat("Hi", max_new_tokens=5, stop_ids=[])
    assert chat.ids == tiny.generate(messages, max_new_tokens=5, stop_ids=[]).ids
    assert chat.ids == tiny.generate(tiny.chat_prompt(messages).ids, max_new_tokens=5, stop_ids=[]).ids


def test_a_batch_gives_what_each_gives_alone(tiny):
    prompts = ["a", "some longer prompt", "b c"]
    options = {"max_new_tokens": 9, "temperature": 0.8, "seed": 4, "stop_ids": []}
    together = tiny.generate(prompts, **options)
    assert [one.ids for one in together] == [tiny.generate(p, **options).ids for p in prompts]


def test_more_prompts_than_the_cache_holds_take_turns(tiny_path):
    # 12 pages of 16 positions; every answer takes two.
    model = phidias.Model(tiny_path, numerics="exact", page_positions=16)
    each = model.engine.memory["cache_per_position"]
    model = phidias.Model(
        tiny_path, numerics="exact", page_positions=16, cache_budget=12 * 16 * each
    )
    prompts = [f"number {i:2}" for i in range(40)]
    answers = model.generate(prompts, max_new_tokens=20, stop_ids=[])
    assert all(answer.error is None and len(answer.ids) == 20 for answer in answers)
    assert answers[37].ids == model.generate(prompts[37], max_new_tokens=20, stop_ids=[]).ids


def test_a_stream_brings_the_same_text_in_pieces(tiny):
    options = {"max_new_tokens": 20, "stop_ids": [], "temperature": 1.0, "seed": 2}
    whole = tiny.generate("Once", **options)
    stream = tiny.stream("Once", **options)
    events = list(stream)
    assert "".join(event.text for event in events) == whole.text
    assert [event.token.id for event in events if event.token] == whole.ids
    assert events[-1].finish_reason == "length"
    assert stream.result.text == whole.text
    assert "".join(tiny.stream("Once", **options).text()) == whole.text


def test_a_stream_that_is_left_early_gives_its_pages_back(tiny_path):
    model = phidias.Model(tiny_path)
    with model.stream("Once", stop_ids=[]) as stream:
        next(stream)
    assert stream.result.finish_reason == "cancelled"
    abandoned = model.stream("Twice", stop_ids=[])
    next(abandoned)
    del abandoned
    gc.collect()
    model.generate("Thrice", max_new_tokens=2, stop_ids=[])
    assert model.engine.cache_bytes_in_use == 0


def test_streams_interleave_with_each_other_and_with_answers(tiny):
    expected = tiny.generate(["x", "yy"], max_new_tokens=8, stop_ids=[])
    first = tiny.stream("x", max_new_tokens=8, stop_ids=[])
    second = tiny.stream("yy", max_new_tokens=8, stop_ids=[])
    ids = ([], [])
    for _ in range(3):
        ids[0].append(next(first).token.id)
        ids[1].append(next(second).token.id)
    assert tiny.generate("x", max_new_tokens=8, stop_ids=[]).ids == expected[0].ids
    ids[0].extend(event.token.id for event in first if event.token)
    ids[1].extend(event.token.id for event in second if event.token)
    assert list(ids) == [one.ids for one in expected]


def test_threads_generate_side_by_side(tiny):
    prompts = [chr(65 + i) * (i + 1) for i in range(6)]
    expected = [tiny.generate(p, max_new_tokens=10, stop_ids=[]).ids for p in prompts]
    found = [None] * 6

    def work(i):
        found[i] = tiny.generate(prompts[i], max_new_tokens=10, stop_ids=[]).ids

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_several_answers_to_one_prompt(tiny):
    options = {"max_new_tokens": 8, "temperature": 1.5, "seed": 1, "stop_ids": []}
    answer = tiny.generate("Hi", n=4, **options)
    assert len(answer.choices) == 4
    assert len({tuple(choice.ids) for choice in answer.choices}) > 1
    assert answer.choices[0].ids == tiny.generate("Hi", **options).ids
    assert answer.generated_tokens == 32


def test_a_stop_string_ends_the_text_before_it(tiny):
    whole = tiny.generate("Once", max_new_tokens=30, stop_ids=[]).text
    stop = whole[7:9]
    answer = tiny.generate("Once", max_new_tokens=30, stop_ids=[], stop=stop)
    assert answer.text == whole[: whole.index(stop)]
    assert (answer.finish_reason, answer.choices[0].stopped_by) == ("stop", stop)


def test_a_stop_id_ends_the_answer(tiny):
    ids = tiny.generate("Once", max_new_tokens=10, stop_ids=[]).ids
    answer = tiny.generate("Once", max_new_tokens=10, stop_ids=[ids[4]])
    assert answer.ids == ids[: ids.index(ids[4]) + 1]
    assert answer.finish_reason == "stop"


def test_log_probabilities_are_those_of_the_model(tiny):
    ids = tiny.encode("Once")
    answer = tiny.generate(ids, max_new_tokens=3, logprobs=5, temperature=2.0, stop_ids=[])
    logits = tiny.engine.open().append(ids).astype(np.float64)
    expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    token = answer.tokens[0]
    assert token.log_probability == pytest.approx(expected[token.id], rel=1e-5)
    assert [other for other, _ in token.best] == np.argsort(-expected, kind="stable")[:5].tolist()
    assert [p for _, p in token.best] == pytest.approx(sorted(expected)[::-1][:5], rel=1e-5)


def test_a_bias_bans_and_forces(tiny):
    ids = tiny.generate("Once", max_new_tokens=1, stop_ids=[]).ids
    banned = tiny.generate("Once", max_new_tokens=5, logit_bias={ids[0]: -math.inf}, stop_ids=[])
    assert ids[0] not in banned.ids
    forced = tiny.generate("Once", max_new_tokens=5, logit_bias={65: 1000.0}, stop_ids=[])
    assert forced.text == "AAAAA"


def test_options_out_of_range_are_refused_by_name(tiny):
    with pytest.raises(phidias.InvalidArgumentError) as caught:
        tiny.generate("x", top_p=1.5)
    assert caught.value.item == "top_p"
    # None of a batch runs where one cannot; the runner is as before.
    with pytest.raises(phidias.Error):
        tiny.generate(["x", ""])
    assert tiny.generate("x", max_new_tokens=2, stop_ids=[]).generated_tokens == 2


def test_an_answer_with_edits_and_reads(tiny):
    vector = np.linspace(-3, 3, 32)
    path = "layers[1].layer_output"
    plain = tiny.generate("Once", max_new_tokens=8, stop_ids=[])
    watched = tiny.generate("Once", max_new_tokens=8, stop_ids=[], read=[path])
    assert watched.ids == plain.ids and watched.text == plain.text
    assert watched[path].shape == (1, 4 + 8 - 1, 32)
    steering = phidias.steer(1, vector, 3, at="decode")
    steered = tiny.generate("Once", max_new_tokens=8, stop_ids=[], edits=[steering])
    assert steered.ids[0] == plain.ids[0] and steered.ids != plain.ids
    assert steered.touched == [7]
    with tiny.edited(steering):
        assert tiny.generate("Once", max_new_tokens=8, stop_ids=[]).ids == steered.ids


def test_an_answer_with_reads_ends_at_a_stop_id(tiny):
    path = "layers[*].attention_probabilities"
    ids = tiny.generate("Once", max_new_tokens=10, stop_ids=[]).ids
    answer = tiny.generate("Once", max_new_tokens=10, stop_ids=[ids[3]], read=[path])
    assert answer.ids == ids[: ids.index(ids[3]) + 1] and answer.finish_reason == "stop"
    rows = 4 + len(answer.ids) - 1
    assert answer[path].shape == (3, 1, 4, rows, rows)


def test_edits_and_reads_go_with_every_option(tiny):
    path = "layers[2].layer_output"
    options = {"max_new_tokens": 6, "temperature": 1.5, "seed": 3, "n": 3, "stop_ids": []}
    steering = phidias.steer(1, np.ones(32), 2)
    answer = tiny.generate("Once", edits=steering, read=[path, tiny.logits[:, -1]], **options)
    assert len({tuple(choice.ids) for choice in answer.choices}) > 1
    for number, choice in enumerate(answer.choices):
        with tiny.trace([*tiny.encode("Once"), *choice.ids[:-1]], edits=steering) as t:
            stream = t.read(path)
        assert np.array_equal(answer.values_of(number)[path], stream)
    assert answer[tiny.logits[:, -1]].shape == (1, 260)
    with pytest.raises(KeyError, match="was not read"):
        answer["layers[0].layer_output"]
    together = tiny.generate(["Once", "Twice"], edits=steering, read=path, **options)
    assert together[0].ids == answer.ids
    assert np.array_equal(together[0][path], answer[path])


def test_a_stream_can_be_looked_into(tiny):
    path = "layers[1].layer_output"
    stream = tiny.stream("Once", max_new_tokens=5, stop_ids=[], edits=phidias.zero(path), read=path)
    ids = [event.token.id for event in stream if event.token]
    assert ids == stream.result.ids and not stream.result[path].any()
    assert stream.result.touched == [8]


def test_more_than_allowed_is_refused_with_the_figure(tiny):
    with pytest.raises(phidias.CapacityExceededError, match=r"\b1408\b.*\b1000\b"):
        tiny.generate("Once", max_new_tokens=8, read="layers[0].layer_output", max_bytes=1000)


def test_a_function_on_live_rows_works_in_answers_and_its_errors_end_them(tiny):
    seen = []

    def look(x, where):
        seen.append((where.position, where.rows))
        x[..., 0] = 0

    edit = phidias.Edit.function("layers[1].layer_output", look)
    answer = tiny.generate("Once", max_new_tokens=3, stop_ids=[], edits=edit)
    assert seen == [(0, 4), (4, 1), (5, 1)]
    data = phidias.zero("layers[1].layer_output[channel=0]")
    assert answer.ids == tiny.generate("Once", max_new_tokens=3, stop_ids=[], edits=data).ids

    def broken(x, where):
        if where.position > 4:
            raise ZeroDivisionError

    edit = phidias.Edit.function("layers[1].layer_output", broken)
    with pytest.raises(ZeroDivisionError):
        tiny.generate("Once", max_new_tokens=50, stop_ids=[], edits=edit)
    stream = tiny.stream("Once", max_new_tokens=50, stop_ids=[], edits=edit)
    with pytest.raises(ZeroDivisionError):
        list(stream)


def test_a_function_can_end_its_answer(tiny):
    def enough(x, where):
        if len(where.tokens) > 6:
            where.end_run()

    edit = phidias.Edit.function("layers[0].layer_output", enough)
    answer = tiny.generate("Once", max_new_tokens=50, stop_ids=[], edits=edit)
    assert (answer.finish_reason, len(answer.ids)) == ("cancelled", 3)


def test_another_thread_stops_a_stream(tiny_path):
    model = phidias.Model(tiny_path)
    stream = model.stream("Once", max_new_tokens=0, stop_ids=[])
    next(stream)
    stopper = threading.Thread(target=stream.stop)
    stopper.start()
    rest = list(stream)
    stopper.join()
    assert rest[-1].finish_reason == "cancelled" and len(rest) < 250
    assert stream.result.finish_reason == "cancelled"
    assert stream.result.ids[1:] == [event.token.id for event in rest if event.token]


def test_a_callback_stops_all_answers(tiny):
    def stop(x, where):
        if where.position > 8:
            tiny.stop()

    edit = phidias.Edit.function("layers[0].layer_output", stop)
    answers = tiny.generate(["Once", "Twice"], max_new_tokens=100, stop_ids=[], edits=edit)
    assert [answer.finish_reason for answer in answers] == ["cancelled"] * 2
    assert all(3 < len(answer.ids) < 100 for answer in answers)


def test_streams_are_asynchronous_iterators_too(tiny):
    import asyncio

    expected = tiny.generate(["Once", "Twice"], max_new_tokens=9, stop_ids=[])

    async def collect(prompt):
        return [e.token.id async for e in tiny.stream(prompt, max_new_tokens=9, stop_ids=[]) if e.token]

    async def both():
        return await asyncio.gather(collect("Once"), collect("Twice"))

    assert asyncio.run(both()) == [one.ids for one in expected]


def test_a_cancelled_task_ends_its_request(tiny_path):
    import asyncio

    model = phidias.Model(tiny_path)

    async def work():
        stream = model.stream("Once", max_new_tokens=0, stop_ids=[])

        async def read():
            async for _ in stream:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream

    stream = asyncio.run(work())
    stream.close()
    assert stream.result.finish_reason == "cancelled"


def test_the_interpreter_goes_on_while_the_engine_works(tiny_path):
    """A thread counts while another is inside one long call of the engine."""
    model = phidias.Model(tiny_path, context=256)
    ids = list(range(40, 240))
    inside, counted = threading.Event(), []

    def enter(x, where):
        inside.set()

    def count():
        inside.wait()
        while working.is_set():
            counted.append(1)

    working = threading.Event()
    working.set()
    counter = threading.Thread(target=count)
    counter.start()
    edit = phidias.Edit.function("token_embeddings", enter)
    with model.trace(ids, edits=edit, generate=50):
        pass
    working.clear()
    counter.join()
    assert len(counted) > 100


def test_a_real_model_answers(real):
    answer = real.chat("What is the capital of France?", max_new_tokens=40)
    assert "Paris" in answer.text
