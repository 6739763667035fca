"""Lines that differ in numbers, paths, hosts and times only, and lines that tell other failures."""

from itertools import combinations

import pytest

from retry.evidence.termination import Termination
from retry.signatures.signature import signature

SAME = (
    (
        "error: took 3m12s",
        "error: took 41s",
        "error: took 1h2m3.5s",
    ),
    (
        "error: downloaded 1,234,567 bytes",
        "error: downloaded 12 bytes",
    ),
    (
        "error: pod/train-7f9c6d8b5-x2k4q failed",
        "error: pod/train-5d4b9c7f66-zz9bk failed",
    ),
    (
        "error: pod train-0 failed",
        "error: pod train-13 failed",
    ),
    (
        "error: instance i-0abc1234def567890 lost",
        "error: instance i-0fff1234aaa567890 lost",
    ),
    (
        "error: host ip-10-0-3-4.ec2.internal down",
        "error: host ip-10-11-32-41.eu-west-1.compute.internal down",
    ),
    (
        "fatal: commit 4f5e6d7 missing",
        "fatal: commit abcdef0 missing",
    ),
    (
        "error: device 00:1A:2b:3c:4d:5e offline",
        "error: device 0a:11:22:33:44:55 offline",
    ),
    (
        "error: user alice@example.com unknown",
        "error: user bob.smith@corp.example.org unknown",
    ),
    (
        "error: at 87% of epoch 3",
        "error: at 7% of epoch 130",
    ),
    (
        "error: attempt 3/5 failed",
        "error: attempt 12/50 failed",
    ),
    (
        "error: Connection to web01.prod closed by remote host",
        "error: Connection to db7.stage closed by remote host",
    ),
    (
        "ssh: connect to host web port 22: Connection refused",
        "ssh: connect to host 10.0.0.3 port 2222: Connection refused",
    ),
    (
        "dial tcp: lookup db.prod on 10.0.0.10:53: no such host",
        "dial tcp: lookup cache-3 on 10.96.0.10:53: no such host",
    ),
    (
        '{"level":"error","ts":"2031-01-02T03:04:05Z","msg":"cannot open row 7","row":7}',
        '{"level":"error","ts":"2032-11-02T03:04:05.123Z","msg":"cannot open row 71","row":71}',
    ),
    (
        (
            'level=error ts=2031-01-02T03:04:05Z caller=main.go:33 msg="cannot '
            'reach backend" addr=10.0.0.3:90'
        ),
        (
            'level=error ts=2031-09-02T03:04:05.3Z caller=main.go:331 msg="cannot '
            'reach backend" addr=10.0.0.13:9000'
        ),
    ),
    (
        "Error: ENOENT: no such file or directory, open '/a/b.json'",
        "Error: ENOENT: no such file or directory, open '/srv/x/y/z.json'",
    ),
    (
        "error: arn:aws:s3:::bucket-7/key denied",
        "error: arn:aws:s3:::other-99/key denied",
    ),
    (
        (
            "panic: runtime error: index out of range [5] with length 3\n\ngoroutine "
            "1 [running]:\nmain.main()\n\t/a/b.go:3 +0x1"
        ),
        (
            "panic: runtime error: index out of range [50] with length 30\n\n"
            "goroutine 17 [running]:\nmain.main()\n\t/a/c/b.go:13 +0x1d"
        ),
    ),
    (
        "ERROR 2031-01-02 03:04:05,123 worker-3 [Thread-12] disk full on /data/3",
        "ERROR 2032-01-02 23:04:05,999 worker-33 [Thread-1] disk full on /mnt/x",
    ),
    (
        (
            "Jan  2 03:04:05 node7 kernel: Out of memory: Killed process 1234 "
            "(python) total-vm:123kB, anon-rss:12kB"
        ),
        (
            "Nov 12 13:04:05 gpu-b-12 kernel: Out of memory: Killed process 99 "
            "(python) total-vm:999123kB, anon-rss:882kB"
        ),
    ),
    (
        "error: Job 123.server.example.com exceeded walltime 3600",
        "error: Job 99123.pbs01 exceeded walltime 7200",
    ),
    (
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1234.0. Some "
            "of your processes may have been killed by the cgroup out-of-memory "
            "handler."
        ),
        (
            "slurmstepd: error: Detected 3 oom-kill event(s) in StepId=99.batch. "
            "Some of your processes may have been killed by the cgroup "
            "out-of-memory handler."
        ),
    ),
    (
        "error: lease 01ARZ3NDEKTSV4RRFFQ69G5FAV expired",
        "error: lease 01BX5ZZKBKACTAV9WEVGEMMVRZ expired",
    ),
    (
        "Error: timeout of 3000ms exceeded",
        "Error: timeout of 120000ms exceeded",
    ),
    (
        "OSError: [Errno 28] No space left on device: '/tmp/tmpab12/x'",
        "OSError: [Errno 28] No space left on device: '/scratch/7/tmpzz/x'",
    ),
    (
        (
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when "
            "calling the PutObject operation (reached max retries: 4): Please "
            "reduce your request rate."
        ),
        (
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when "
            "calling the PutObject operation (reached max retries: 14): Please "
            "reduce your request rate."
        ),
    ),
    (
        "Error: Cannot find module '/app/dist/a.js'",
        "Error: Cannot find module '/srv/7/dist/a.js'",
    ),
    (
        "error: allocation of 12.5 GiB failed",
        "error: allocation of 512 MiB failed",
        "error: allocation of 1024 bytes failed",
    ),
    (
        "error in file C:\\a\\b\\x.py line 3",
        "error in file D:\\work\\x.py line 33",
    ),
    (
        "error: http://10.0.0.3:80/a?x=1 returned",
        "error: https://h.example.com/b/c?y=2 returned",
    ),
    (
        (
            "fatal: unable to access 'https://github.com/a/b.git/': Could not "
            "resolve host: github.com"
        ),
        "fatal: unable to access 'https://git.corp/x/y.git/': Could not resolve host: git.corp",
    ),
    (
        (
            "[2031-01-02 03:04:05,123: ERROR/MainProcess] Task "
            "x[0f8fad5b-d9cb-469f-a165-70867728950e] failed"
        ),
        (
            "[2031-11-02 03:04:05,123: ERROR/MainProcess] Task "
            "x[1f8fad5b-d9cb-469f-a165-70867728950a] failed"
        ),
    ),
    (
        "E0102 03:04:05.123456   12345 server.cc:33] Failed to bind",
        "E1112 13:04:05.999999  99 server.cc:133] Failed to bind",
    ),
    (
        "error: version 1.2.3 is not supported",
        "error: version 10.0.0-rc1 is not supported",
    ),
    (
        "error: rank 3 of 8 died",
        "error: rank 11 of 128 died",
    ),
    (
        "error: n = 1e-7 did not converge after 100 steps",
        "error: n = 3.2E+10 did not converge after 99999 steps",
    ),
    (
        "error: shape (3, 4) mismatch (5,)",
        "error: shape (128, 4, 7) mismatch (512, 3)",
    ),
    (
        "error: file a_2031-01-02.parquet is corrupt",
        "error: file b_20310102T0304.parquet is corrupt",
    ),
    (
        "error: s3://b/k: NoSuchKey",
        "error: s3://other/x/y/z: NoSuchKey",
    ),
    (
        (
            'Traceback (most recent call last):\n  File "/a/x.py", line 3, in f\n    '
            "g()\nKeyError: 'user_123'"
        ),
        (
            'Traceback (most recent call last):\n  File "/b/x.py", line 13, in f\n    '
            "g()\nKeyError: 'user_99'"
        ),
    ),
    (
        'rsync: [sender] link_stat "/a/b" failed: No such file or directory (2)',
        'rsync: [sender] link_stat "/x/y/z" failed: No such file or directory (2)',
    ),
    (
        (
            'psql: error: connection to server at "db1" (10.0.0.3), port 5432 '
            'failed: FATAL:  database "a" does not exist'
        ),
        (
            'psql: error: connection to server at "db.example.com" (10.1.0.3), port '
            '6432 failed: FATAL:  database "a" does not exist'
        ),
    ),
    (
        (
            "redis.exceptions.ConnectionError: Error 111 connecting to redis:6379. "
            "Connection refused."
        ),
        (
            "redis.exceptions.ConnectionError: Error 111 connecting to "
            "10.0.0.3:6380. Connection refused."
        ),
        (
            "redis.exceptions.ConnectionError: Error 111 connecting to "
            "cache.prod.svc.cluster.local:6379. Connection refused."
        ),
    ),
    (
        (
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='api', "
            "port=80): Max retries exceeded with url: /x (Caused by "
            "NewConnectionError('<urllib3.connection.HTTPConnection object at "
            "0x7f00>: Failed to establish a new connection: [Errno 111] Connection "
            "refused'))"
        ),
        (
            "requests.exceptions.ConnectionError: "
            "HTTPConnectionPool(host='api.example.com', port=8080): Max retries "
            "exceeded with url: /y/z?q=1 (Caused by "
            "NewConnectionError('<urllib3.connection.HTTPConnection object at "
            "0x7fab>: Failed to establish a new connection: [Errno 111] Connection "
            "refused'))"
        ),
    ),
    (
        (
            "Warning  FailedScheduling  12s   default-scheduler  0/3 nodes are "
            "available: 3 Insufficient cpu."
        ),
        (
            "Warning  FailedScheduling  4m2s   default-scheduler  0/12 nodes are "
            "available: 12 Insufficient cpu."
        ),
    ),
    (
        (
            'Failed to pull image "reg.example.com/a:1": rpc error: code = NotFound '
            'desc = failed to pull and unpack image "reg.example.com/a:1": not '
            "found"
        ),
        (
            'Failed to pull image "reg2.example.org:5000/a:7": rpc error: code = '
            "NotFound desc = failed to pull and unpack image "
            '"reg2.example.org:5000/a:7": not found'
        ),
    ),
    (
        (
            "Back-off restarting failed container main in pod "
            "job-7f9c6d8b5-x2k4q_default(0f8fad5b-d9cb-469f-a165-70867728950e)"
        ),
        (
            "Back-off restarting failed container main in pod "
            "job-5d4b9c7f66-zz9bk_default(1f8fad5b-d9cb-469f-a165-70867728950a)"
        ),
    ),
    (
        "srun: error: node17: task 3: Out Of Memory",
        "srun: error: gpu-b-3: task 13: Out Of Memory",
    ),
    (
        (
            "slurmstepd: error: *** JOB 123 ON node17 CANCELLED AT "
            "2031-01-02T03:04:05 DUE TO TIME LIMIT ***"
        ),
        (
            "slurmstepd: error: *** JOB 9999 ON c01 CANCELLED AT "
            "2032-01-02T03:04:05 DUE TO TIME LIMIT ***"
        ),
    ),
    (
        (
            "mpirun noticed that process rank 3 with PID 0 on node node17 exited on "
            "signal 9 (Killed)."
        ),
        (
            "mpirun noticed that process rank 13 with PID 1234 on node gpu-b-3 "
            "exited on signal 9 (Killed)."
        ),
    ),
    (
        "error: token 'abc' at line 3 column 7 unexpected",
        "error: token 'abc' at line 33 column 17 unexpected",
    ),
    (
        "Error: Elapsed time 00:12:03 exceeded limit",
        "Error: Elapsed time 1-02:12:03 exceeded limit",
    ),
    (
        "error: read 5 of 9 chunks from nfs01:/export/data failed",
        "error: read 15 of 19 chunks from filer-b:/vol/x failed",
    ),
    (
        "mount.nfs: Connection timed out for nfs01:/export",
        "mount.nfs: Connection timed out for filer:/vol/x",
    ),
    (
        "error: cannot stat \u2018/a/b\u2019: No such file or directory",
        "error: cannot stat \u2018/x/y z/q\u2019: No such file or directory",
    ),
    (
        "error: cannot open «/a/b»",
        "error: cannot open «/x/y»",
    ),
    (
        (
            "org.apache.hadoop.ipc.RemoteException: File /user/a/part-00003 could "
            "only be written to 0 of the 1 minReplication nodes."
        ),
        (
            "org.apache.hadoop.ipc.RemoteException: File /user/b/c/part-00113 could "
            "only be written to 0 of the 1 minReplication nodes."
        ),
    ),
)
APART = (
    "error: HTTP 403 Forbidden",
    "error: HTTP 503 Service Unavailable",
    "error: status 404",
    "error: status=500",
    '{"level":"error","msg":"cannot open the ledger file"}',
    '{"level":"error","msg":"context deadline exceeded in query"}',
    '{"level":"error","msg":"quota of the tenant reached"}',
    '{"level":"error","message":"pipeline stage ingest crashed"}',
    '{"level":"error","message":"pipeline stage publish crashed"}',
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://a/b",
    "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: http://a/b",
    "ERROR 1045 (28000): Access denied for user 'a'@'b' (using password: YES)",
    "ERROR 2002 (HY000): Can't connect to local MySQL server through socket '/run/x.sock' (2)",
    "ERROR 1146 (42S02): Table 'a.b' doesn't exist",
    "ORA-00942: table or view does not exist",
    "ORA-12154: TNS:could not resolve the connect identifier specified",
    "error: Failed with result 'oom-kill'.",
    "error: Failed with result 'exit-code'.",
    "error TS2307: a",
    "error TS2339: a",
    "error[E0382]: borrow of moved value: `x`",
    "error[E0502]: cannot borrow `x` as mutable",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: device-side assert triggered",
    "CUDA error: unspecified launch failure",
    "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 48, Double Bit ECC",
    "urllib.error.HTTPError: HTTP Error 429: Too Many Requests",
    "urllib.error.HTTPError: HTTP Error 500: Internal Server Error",
    "curl: (6) Could not resolve host: a",
    "curl: (7) Failed to connect to a port 80: Connection refused",
    "curl: (28) Operation timed out",
    "rsync error: error in file IO (code 11) at main.c(1)",
    "rsync error: timeout in data send/receive (code 30) at io.c(1)",
    "exit with signal SIGSEGV error",
    "exit with signal SIGBUS error",
    "grpc: rpc error: code = Unavailable desc = connection closed",
    "grpc: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    (
        "botocore.exceptions.ClientError: An error occurred (403) when calling "
        "the HeadObject operation: Forbidden"
    ),
    (
        "botocore.exceptions.ClientError: An error occurred (404) when calling "
        "the HeadObject operation: Not Found"
    ),
    "ModuleNotFoundError: No module named 'a'",
    "ModuleNotFoundError: No module named 'b.c'",
    "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
    "bash: foo: command not found",
    "bash: bar: command not found",
)


def key(line: str) -> str:
    return signature(Termination(exit_code=1), line).key


@pytest.mark.parametrize("lines", SAME, ids=lambda lines: lines[0][:40])
def test_runs_of_one_failure_fall_together(lines: tuple[str, ...]) -> None:
    titles = {signature(Termination(exit_code=1), line).title for line in lines}
    assert len(titles) == 1, titles


def test_other_failures_stay_apart() -> None:
    keys = {line: key(line) for line in (*APART, *(lines[0] for lines in SAME))}
    together = [pair for pair in combinations(keys, 2) if keys[pair[0]] == keys[pair[1]]]
    assert together == []
