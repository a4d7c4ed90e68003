"""A real gRPC engine that tells what a test wants it to, and nothing of inference."""

from contextlib import asynccontextmanager

import grpc
import smg_grpc_proto as proto
from google.protobuf.json_format import ParseDict

ENGINES = {
    "sglang": ("sglang_scheduler_pb2", "SglangScheduler"),
    "vllm": ("vllm_engine_pb2", "VllmEngine"),
    "trtllm": ("trtllm_service_pb2", "TrtllmService"),
    "tokenspeed": ("tokenspeed_scheduler_pb2", "TokenSpeedScheduler"),
    "mlx": ("mlx_engine_pb2", "MlxEngine"),
}


class Engine:
    """`answers` maps methods to JSON members, or to None to refuse the call."""

    def __init__(self, runtime, answers):
        self.runtime = runtime
        self.answers = answers
        self.calls = []
        self.credentials = set()
        self.url = ""

    def handlers(self):
        module, service = ENGINES[self.runtime]
        messages = getattr(proto, module)
        shape = messages.DESCRIPTOR.services_by_name[service]
        return grpc.method_handlers_generic_handler(
            shape.full_name,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    self.handler(name, getattr(messages, shape.methods_by_name[name].output_type.name)),
                    response_serializer=lambda answer: answer.SerializeToString(),
                )
                for name in ("HealthCheck", "GetModelInfo", "GetServerInfo")
            },
        )

    def handler(self, name, answer):
        async def handle(_request, context):
            self.calls.append(name)
            self.credentials.add(dict(context.invocation_metadata()).get("authorization"))
            members = self.answers.get(name, {})
            if members is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return ParseDict(members, answer())

        return handle


@asynccontextmanager
async def grpc_engines():
    """Start engines of a runtime; they stop at the end."""
    servers = []

    async def start(runtime, **answers):
        engine = Engine(runtime, answers)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((engine.handlers(),))
        engine.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        servers.append(server)
        return engine

    try:
        yield start
    finally:
        for server in servers:
            await server.stop(None)
