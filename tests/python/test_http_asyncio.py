"""The asyncio client of Triton's: the same server, and an event loop that keeps many requests in flight."""

import asyncio

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException
from v2_repository import NUMPY_TYPES, samples, truth


def tensor(name, data_type, values, binary=True):
    entry = triton.InferInput(name, values.shape, data_type)
    entry.set_data_from_numpy(values, binary_data=binary)
    return entry


def run(server, work):
    async def with_client():
        async with aio.InferenceServerClient(server.http.removeprefix("http://")) as client:
            return await work(client)

    return asyncio.run(with_client())


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("data_type", NUMPY_TYPES)
def test_every_type(v2_server, data_type, coding):
    values = samples(data_type, (3, 5), seed=8)

    async def work(client):
        return await client.infer(
            f"rows_{data_type.lower()}",
            [tensor("x", data_type, values)],
            request_id="7",
            request_compression_algorithm=coding,
            response_compression_algorithm=coding,
        )

    result = run(v2_server, work)
    got, expected = result.as_numpy("y"), truth(f"identity_{data_type.lower()}", {"x": values})["y"]
    if data_type == "BYTES":
        got = np.array([value.decode() for value in got.flatten()], dtype=np.object_).reshape(got.shape)
    np.testing.assert_array_equal(got, expected)
    assert result.get_response()["id"] == "7"


def test_many_in_flight(v2_server):
    features = np.random.default_rng(9).normal(size=(64, 8)).astype(np.float32)

    async def work(client):
        rows = (features[i : i + 1] for i in range(len(features)))
        return await asyncio.gather(*(client.infer("fraud_mlp", [tensor("features", "FP32", row)]) for row in rows))

    got = np.concatenate([result.as_numpy("probability") for result in run(v2_server, work)])
    expected = truth("fraud_mlp", {"features": features})["probability"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


def test_errors_and_the_rest_of_the_methods(v2_server):
    async def work(client):
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("add") and not await client.is_model_ready("nowhere")
        assert (await client.get_server_metadata())["name"] == "airlock"
        assert (await client.get_model_metadata("add", "1"))["name"] == "add"
        assert (await client.get_model_config("add"))["name"] == "add"
        assert len(await client.get_model_repository_index()) > 30
        with pytest.raises(InferenceServerException, match="unexpected inference input 'z' for model 'rows_fp32'"):
            await client.infer("rows_fp32", [tensor("z", "FP32", np.zeros((1, 2), dtype=np.float32))])

    run(v2_server, work)


def test_clients_that_leave_disturb_nobody(v2_server):
    values = np.zeros((8, 200_000), dtype=np.float32)

    async def work(client):
        leaving = [asyncio.ensure_future(client.infer("rows_fp32", [tensor("x", "FP32", values)])) for _ in range(8)]
        await asyncio.sleep(0)
        for request in leaving:
            request.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        return await client.infer("add", [tensor(name, "FP32", values[:1, :2]) for name in "ab"])

    assert (run(v2_server, work).as_numpy("sum") == 0).all()
