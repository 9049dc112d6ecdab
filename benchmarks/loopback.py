"""Floors of the network: bytes through a loopback connection to a reader that drops them, and there and back again."""

import multiprocessing
import socket
import time

from benchmarks.process_clock import now_seconds

LOOPBACK = "loopback connection"
ECHO = "loopback, there and back"
PIECE_BYTES = 1024**2


def send(port: int, size: int) -> None:
    piece = bytes(PIECE_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(-(-size // PIECE_BYTES)):
            connection.sendall(piece)


def streamed_per_second(size: int) -> float:
    """Bytes per second from one process to another."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = multiprocessing.get_context("spawn").Process(target=send, args=(listener.getsockname()[1], size))
        sender.start()
        connection, _ = listener.accept()
        start, received, buffer = now_seconds(), 0, bytearray(PIECE_BYTES)
        with connection:
            while taken := connection.recv_into(buffer):
                received += taken
        seconds = now_seconds() - start
        sender.join()
        return received / seconds


def echo(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while received := connection.recv(PIECE_BYTES):
            connection.sendall(received)


def echo_delays(*, rate: int, count: int, size: int) -> list[int]:
    """Microseconds that `size` bytes need to another process and back, at a steady rate."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        echoing = multiprocessing.get_context("spawn").Process(target=echo, args=(listener.getsockname()[1],))
        echoing.start()
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        delays, start = [], now_seconds()
        with connection:
            for number in range(count):
                time.sleep(max(0.0, start + number / rate - now_seconds()))
                begin = now_seconds()
                connection.sendall(bytes(size))
                connection.recv(size, socket.MSG_WAITALL)
                delays.append(int((now_seconds() - begin) * 1e6))
        echoing.join()
        return delays
