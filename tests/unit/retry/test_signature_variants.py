"""Lines that differ in numbers, paths, hosts and times only, and lines that tell other failures."""

from itertools import combinations

import pytest

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.signature import signature

SAME = (
    (
        "error: vector of size 1.5 Gb",
        "error: vector of size 762.9 Mb",
    ),
    (
        "error: bucket data-7c9c6d8 exists",
        "error: bucket data-1234567 exists",
    ),
    (
        "error: no room for 184. MiB",
        "error: no room for 12.5 GiB",
    ),
    (
        "error: lost after 900µs",
        "error: lost after 1.2s",
    ),
    (
        "error: gave up on events-0:30001 ms",
        "error: gave up on events-11:120000 ms",
    ),
    # Files of source code, in other folders, and those that something made up.
    (
        "/home/u1/src/load.hpp:3:7: error: no type named 'x'",
        "/builds/77/load.hpp:30:1: error: no type named 'x'",
        "load.hpp:4:9: error: no type named 'x'",
    ),
    (
        "error: cannot run /tmp/run-a/main.py",
        "error: cannot run /scratch/tmp/other.py",
        "error: cannot run tmpk_xq.py",
    ),
    (
        "error: cannot read out/si.wfc1",
        "error: cannot read /data/x/si.wfc12",
    ),
    (
        "error: wanted sha512-ab/cd+efghijklmnopqrstuvwxyz0123456789==",
        "error: wanted sha512-0123456789abcdefghijklmnopqrstuvwxyz/q==",
    ),
    (
        "[E626 06:24:44.903 ProcessGroup.cpp:616] watchdog failed",
        "[E1206 18:44:12.715 ProcessGroup.cpp:616] watchdog failed",
    ),
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
    (
        (
            "Error: failed to read config\n\nCaused by:\n    0: open "
            "/etc/a.toml\n    1: No such file or directory (os error 2)\n"
        ),
        (
            "Error: failed to read config\n\nCaused by:\n    0: open "
            "/srv/x/b.toml\n    1: No such file or directory (os error 2)\n"
        ),
    ),
    (
        (
            "I0102 03:04:05.1 1 main.go:3] start\nF0102 03:04:06.123456    "
            "   1 main.go:33] unable to connect to etcd at 10.0.0.3:2379"
        ),
        (
            "I0112 13:04:05.1 17 main.go:3] start\nF1102 13:04:06.999     "
            "17 main.go:133] unable to connect to etcd at 10.1.0.3:2379"
        ),
    ),
    (
        (
            'Error in readRDS("/a/b.rds") : cannot open the connection\n'
            "Calls: main -> readRDS\nExecution halted"
        ),
        (
            'Error in readRDS("/x/y/z.rds") : cannot open the connection\n'
            "Calls: main -> readRDS\nExecution halted"
        ),
    ),
    (
        (
            "Error in `filter()`:\n! Problem while computing `..1 = x > "
            "3`.\nCaused by error:\n! object 'x' not found\nExecution halted"
        ),
        (
            "Error in `filter()`:\n! Problem while computing `..1 = x > "
            "30`.\nCaused by error:\n! object 'x' not found\nExecution "
            "halted"
        ),
    ),
    (
        (
            "At line 33 of file /a/b/solver.f90 (unit = 10, file = "
            "'in.dat')\nFortran runtime error: End of file\n\nError "
            "termination. Backtrace:\n#0  0x7f00aa in ???"
        ),
        (
            "At line 133 of file /x/solver.f90 (unit = 11, file = "
            "'/d/in2.dat')\nFortran runtime error: End of file\n\nError "
            "termination. Backtrace:\n#0  0x7fabcd in ???"
        ),
    ),
    (
        (
            "forrtl: severe (24): end-of-file during read, unit 10, file "
            "/a/b/in.dat\nImage              PC                Routine     "
            "       Line        Source\na.out              "
            "0000000000401234  MAIN__  3  a.f90"
        ),
        (
            "forrtl: severe (24): end-of-file during read, unit 110, file "
            "/x/y.dat\nImage              PC                Routine        "
            "    Line        Source\na.out              00000000004aaaaa  "
            "MAIN__  13  a.f90"
        ),
    ),
    (
        (
            "[node17:01234] *** An error occurred in MPI_Recv\n"
            "[node17:01234] *** reported by process [1234567,3]\n"
            "[node17:01234] *** on communicator MPI_COMM_WORLD\n"
            "[node17:01234] *** MPI_ERR_TRUNCATE: message truncated\n"
            "[node17:01234] *** MPI_ERRORS_ARE_FATAL (processes in this "
            "communicator will now abort,"
        ),
        (
            "[gpu-b-3:99] *** An error occurred in MPI_Recv\n[gpu-b-3:99] "
            "*** reported by process [99,13]\n[gpu-b-3:99] *** on "
            "communicator MPI_COMM_WORLD\n[gpu-b-3:99] *** "
            "MPI_ERR_TRUNCATE: message truncated\n[gpu-b-3:99] *** "
            "MPI_ERRORS_ARE_FATAL (processes in this communicator will "
            "now abort,"
        ),
    ),
    (
        (
            "[r07n12:12345:0:12345] Caught signal 11 (Segmentation fault: "
            "address not mapped to object at address 0x10)\n==== backtrace "
            "(tid:  12345) ====\n 0 0x0000000000012ce0 __funlockfile()  :0"
        ),
        (
            "[cn3:99:1:101] Caught signal 11 (Segmentation fault: address "
            "not mapped to object at address (nil))\n==== backtrace (tid:  "
            "101) ====\n 0 0x00000000000aace0 __funlockfile()  :0"
        ),
    ),
    (
        (
            "ERROR: Could not find a version that satisfies the "
            "requirement foo==1.2.3 (from versions: 1.0, 1.1)\nERROR: No "
            "matching distribution found for foo==1.2.3"
        ),
        (
            "ERROR: Could not find a version that satisfies the "
            "requirement foo==2.0 (from versions: 0.1, 1.0, 1.1)\nERROR: "
            "No matching distribution found for foo==2.0"
        ),
    ),
    (
        (
            "npm error code E404\nnpm error 404 Not Found - GET "
            "https://registry.example.com/foo - Not found\nnpm error A "
            "complete log of this run can be found in: "
            "/root/.npm/_logs/2031-01-02T03_04_05_123Z-debug-0.log"
        ),
        (
            "npm error code E404\nnpm error 404 Not Found - GET "
            "https://npm.example.org/foo - Not found\nnpm error A complete "
            "log of this run can be found in: "
            "/home/x/.npm/_logs/2032-11-02T13_04_05_123Z-debug-0.log"
        ),
    ),
    (
        (
            "fatal: unable to access 'https://github.com/a/b/': The "
            "requested URL returned error: 403"
        ),
        (
            "fatal: unable to access 'https://git.example.com/c/d.git/': "
            "The requested URL returned error: 403"
        ),
    ),
    (
        (
            "error: RPC failed; curl 56 GnuTLS recv error (-9): A TLS "
            "packet with unexpected length was received.\nfetch-pack: "
            "unexpected disconnect while reading sideband packet\nfatal: "
            "early EOF"
        ),
        (
            "error: RPC failed; curl 56 GnuTLS recv error (-9): A TLS "
            "packet with unexpected length was received.\nerror: 1234 "
            "bytes of body are still expected\nfatal: early EOF"
        ),
    ),
    (
        (
            "make[2]: *** [CMakeFiles/a.dir/build.make:76: "
            "CMakeFiles/a.dir/x.cpp.o] Error 1\nmake[1]: *** "
            "[CMakeFiles/Makefile2:83: CMakeFiles/a.dir/all] Error 2\n"
            "make: *** [Makefile:91: all] Error 2"
        ),
        (
            "make[2]: *** [CMakeFiles/a.dir/build.make:176: "
            "CMakeFiles/a.dir/x.cpp.o] Error 1\nmake[1]: *** "
            "[CMakeFiles/Makefile2:183: CMakeFiles/a.dir/all] Error 2\n"
            "make: *** [Makefile:191: all] Error 2"
        ),
    ),
    (
        (
            "2031-01-02 03:04:05.123 UTC [1234] FATAL:  remaining "
            "connection slots are reserved for roles with the SUPERUSER "
            "attribute"
        ),
        (
            "2031-11-02 13:04:05.123 UTC [99] FATAL:  remaining "
            "connection slots are reserved for roles with the SUPERUSER "
            "attribute"
        ),
    ),
    (
        (
            "psycopg2.errors.DeadlockDetected: deadlock detected\nDETAIL:  "
            "Process 12 waits for ShareLock on transaction 34; blocked by "
            "process 56."
        ),
        (
            "psycopg2.errors.DeadlockDetected: deadlock detected\nDETAIL:  "
            "Process 112 waits for ShareLock on transaction 934; blocked "
            "by process 756."
        ),
    ),
    (
        (
            "ERROR:  duplicate key value violates unique constraint "
            '"a_pkey"\nDETAIL:  Key (id)=(12) already exists.'
        ),
        (
            "ERROR:  duplicate key value violates unique constraint "
            '"a_pkey"\nDETAIL:  Key (id)=(9912) already exists.'
        ),
    ),
    (
        (
            "upload failed: ./a.bin to s3://b/a.bin An error occurred "
            "(AccessDenied) when calling the PutObject operation: Access "
            "Denied"
        ),
        (
            "upload failed: ../x/y.bin to s3://other/q/y.bin An error "
            "occurred (AccessDenied) when calling the PutObject "
            "operation: Access Denied"
        ),
    ),
    (
        (
            "download failed: s3://b/a.bin to ./a.bin Could not connect "
            'to the endpoint URL: "https://b.s3.amazonaws.com/a.bin"'
        ),
        (
            "download failed: s3://b2/c/a.bin to data/a.bin Could not "
            "connect to the endpoint URL: "
            '"https://b2.s3.eu-west-1.amazonaws.com/c/a.bin"'
        ),
    ),
    (
        'Error from server (NotFound): pods "train-7f9c6d8b5-x2k4q" not found',
        'Error from server (NotFound): pods "train-5d4b9c7f66-zz9bk" not found',
        'Error from server (NotFound): pods "worker-0" not found',
        'Error from server (NotFound): pods "etl-main" not found',
    ),
    (
        "error: container my-app exited",
        "error: container etl-main-2 exited",
    ),
    (
        'FATAL:  password authentication failed for user "ann"',
        'FATAL:  password authentication failed for user "svc-batch"',
    ),
    (
        "error: lost volume data_3fa9c2d1",
        "error: lost volume data_77b1e0c4",
    ),
    (
        "main.go:41:7: error: undefined",
        "src/main.go:2041:17: error: undefined",
    ),
    (
        (
            "The connection to the server 10.0.0.3:6443 was refused - did "
            "you specify the right host or port?"
        ),
        (
            "The connection to the server k8s.example.com:6443 was "
            "refused - did you specify the right host or port?"
        ),
    ),
    (
        "Unable to connect to the server: dial tcp 10.0.0.3:443: i/o timeout",
        "Unable to connect to the server: dial tcp [fd00::3]:6443: i/o timeout",
    ),
    (
        (
            "0/12 nodes are available: 3 Insufficient nvidia.com/gpu, 9 "
            "node(s) didn't match Pod's node affinity/selector."
        ),
        (
            "0/9 nodes are available: 1 Insufficient nvidia.com/gpu, 8 "
            "node(s) didn't match Pod's node affinity/selector."
        ),
    ),
    (
        (
            "MountVolume.SetUp failed for volume "
            '"pvc-0f8fad5b-d9cb-469f-a165-70867728950e" : mount failed: '
            "exit status 32"
        ),
        (
            "MountVolume.SetUp failed for volume "
            '"pvc-1f8fad5b-d9cb-469f-a165-70867728950a" : mount failed: '
            "exit status 32"
        ),
    ),
    (
        (
            "The node was low on resource: ephemeral-storage. Container "
            "main was using 12345Ki, which exceeds its request of 0."
        ),
        (
            "The node was low on resource: ephemeral-storage. Container "
            "main was using 9Gi, which exceeds its request of 0."
        ),
    ),
    (
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, "
            "unhandled system error, NCCL version 2.14.3\nncclSystemError: "
            "System call (e.g. socket, malloc) or external library call "
            "failed or device error.\nLast error:\nsocketStartConnect: "
            "Connect to 10.0.0.3<34567> failed : Software caused "
            "connection abort"
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, "
            "unhandled system error, NCCL version 2.18.1\nncclSystemError: "
            "System call (e.g. socket, malloc) or external library call "
            "failed or device error.\nLast error:\nsocketStartConnect: "
            "Connect to 10.1.0.3<4567> failed : Software caused "
            "connection abort"
        ),
    ),
    (
        (
            "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=1234, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800123 "
            "milliseconds before timing out."
        ),
        (
            "[rank13]:[E1112 13:04:05.123456 ProcessGroupNCCL.cpp:563] "
            "[Rank 13] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=99, OpType=ALLREDUCE, Timeout(ms)=600000) "
            "ran for 600044 milliseconds before timing out."
        ),
    ),
    (
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedErr"
            "or: OOM when allocating tensor with shape[128,512,7,7] and "
            "type float on /job:localhost/replica:0/task:0/device:GPU:0 "
            "by allocator GPU_0_bfc [Op:Conv2D]"
        ),
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedErr"
            "or: OOM when allocating tensor with shape[32,64] and type "
            "float on /job:localhost/replica:0/task:0/device:GPU:3 by "
            "allocator GPU_3_bfc [Op:Conv2D]"
        ),
    ),
    (
        (
            "org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Task 3 in stage 4.0 failed 4 times, most recent "
            "failure: Lost task 3.3 in stage 4.0 (TID 123, node17, "
            "executor 2): ExecutorLostFailure (executor 2 exited caused "
            "by one of the running tasks) Reason: Container killed by "
            "YARN for exceeding memory limits. 5.5 GB of 5.5 GB physical "
            "memory used."
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Task 13 in stage 14.1 failed 4 times, most recent "
            "failure: Lost task 13.3 in stage 14.1 (TID 99123, 10.0.0.3, "
            "executor 22): ExecutorLostFailure (executor 22 exited caused "
            "by one of the running tasks) Reason: Container killed by "
            "YARN for exceeding memory limits. 12.1 GB of 12 GB physical "
            "memory used."
        ),
    ),
    (
        "java.lang.OutOfMemoryError: Java heap space\nDumping heap to java_pid123.hprof ...",
        "java.lang.OutOfMemoryError: Java heap space\nDumping heap to /x/java_pid99.hprof ...",
    ),
    (
        (
            'Exception in thread "pool-1-thread-3" '
            "java.lang.IllegalStateException: row 7\n\tat "
            "com.example.App.run(App.java:33)"
        ),
        (
            'Exception in thread "pool-12-thread-31" '
            "java.lang.IllegalStateException: row 71\n\tat "
            "com.example.App.run(App.java:133)"
        ),
    ),
    (
        "bash: line 3: 1234 Killed                  python a.py",
        "bash: line 13: 99 Killed                  python /x/b.py",
    ),
    (
        (
            "/usr/bin/ld: cannot find -lfoo: No such file or directory\n"
            "collect2: error: ld returned 1 exit status"
        ),
        (
            "/usr/bin/x86_64-linux-gnu-ld: cannot find -lfoo: No such "
            "file or directory\ncollect2: error: ld returned 1 exit status"
        ),
    ),
    (
        "cp: error writing '/data/a.bin': No space left on device",
        "cp: error writing '/mnt/x/b.bin': No space left on device",
    ),
    (
        (
            "tar: /a/b.tar: Cannot write: Disk quota exceeded\ntar: Error "
            "is not recoverable: exiting now"
        ),
        (
            "tar: /x/y/c.tar: Cannot write: Disk quota exceeded\ntar: "
            "Error is not recoverable: exiting now"
        ),
    ),
    (
        "wget: unable to resolve host address 'a.example.com'",
        "wget: unable to resolve host address 'mirror7'",
    ),
    (
        "ssh: Could not resolve hostname gw: Name or service not known",
        "ssh: Could not resolve hostname gw.example.com: Name or service not known",
    ),
    (
        "/bin/sh: 1: /a/run.sh: Permission denied",
        "/bin/sh: 3: /x/y/run.sh: Permission denied",
    ),
    (
        "exec /app/run: exec format error",
        "exec /usr/local/bin/run: exec format error",
    ),
    (
        "Error: Unable to access jarfile /a/b.jar",
        "Error: Unable to access jarfile x/c.jar",
    ),
    (
        "WARNING: retry 3\nerror: 0x7f01 bad magic in block 33 at offset 0x1000",
        "WARNING: retry 13\nerror: 0xab bad magic in block 1 at offset 4096",
    ),
    (
        (
            "slurmstepd: error: couldn't chdir to `/a/b': No such file or "
            "directory: going to /tmp instead"
        ),
        (
            "slurmstepd: error: couldn't chdir to `/x/y/z': No such file "
            "or directory: going to /tmp instead"
        ),
    ),
    (
        (
            "srun: error: Unable to create step for job 1234: Invalid "
            "generic resource (gres) specification"
        ),
        (
            "srun: error: Unable to create step for job 99: Invalid "
            "generic resource (gres) specification"
        ),
    ),
    (
        (
            "thread 'tokio-runtime-worker' panicked at src/a.rs:3:5:\n"
            "called `Result::unwrap()` on an `Err` value: Os { code: 111, "
            'kind: ConnectionRefused, message: "Connection refused" }'
        ),
        (
            "thread 'main' panicked at src/a.rs:33:15:\ncalled "
            "`Result::unwrap()` on an `Err` value: Os { code: 111, kind: "
            'ConnectionRefused, message: "Connection refused" }'
        ),
    ),
    (
        (
            "node:internal/process/promises:288\n            "
            "triggerUncaughtException(err, true /* fromPromise */);\n      "
            "      ^\n\nError: connect ECONNREFUSED 127.0.0.1:5432\n    at "
            "TCPConnectWrap.afterConnect [as oncomplete] "
            "(node:net:1494:16) {\n  errno: -111,\n  code: 'ECONNREFUSED',\n "
            " address: '127.0.0.1',\n  port: 5432\n}"
        ),
        (
            "Error: connect ECONNREFUSED 10.0.0.3:6543\n    at "
            "TCPConnectWrap.afterConnect [as oncomplete] "
            "(node:net:1555:16) {\n  errno: -111,\n  code: 'ECONNREFUSED',\n "
            " address: '10.0.0.3',\n  port: 6543\n}"
        ),
    ),
    (
        (
            "panic: dial tcp 10.0.0.3:6379: connect: connection refused\n\n"
            "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1d"
        ),
        (
            "panic: dial tcp [::1]:6379: connect: connection refused\n\n"
            "goroutine 1 [running]:\nmain.main()\n\t/x/main.go:112 +0x2d"
        ),
    ),
    (
        (
            "2031/01/02 03:04:05 http: Server closed\n2031/01/02 03:04:05 "
            "failed to listen on :8080: bind: address already in use"
        ),
        "2031/11/02 13:04:05 failed to listen on :9090: bind: address already in use",
    ),
)
APART = (
    'Error from server (Forbidden): pods "a" is forbidden',
    'Error from server (AlreadyExists): pods "a" already exists',
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
    'error: Cannot invoke "com.example.Customer.region()" because "<local4>" is null',
    'error: Cannot invoke "com.example.Customer.street()" because "<local4>" is null',
    'error: Cannot read field "numberOfTheCustomer" because "<local4>" is null',
    "error: in call: TypeError(\"__init__() got an unexpected keyword argument 'depths'\")",
    "error: in call: TypeError(\"__init__() got an unexpected keyword argument 'widths'\")",
    # Files of source code.
    "/srv/src/load.cc:3: error: no member named 'x'",
    "/srv/src/save.cc:3: error: no member named 'x'",
    "load.cu(3): no such stream",
    "save.cu(3): no such stream",
    "FAILED tests/test_load.py::test_rows - bad row",
    "FAILED tests/test_save.py::test_rows - bad row",
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
    "Error: Can't resolve 'lodash' in '/app/src'",
    "Error: Can't resolve 'axios' in '/app/src'",
    "a.rb:3:in `rows': undefined method `strip' for nil (NoMethodError)",
    "a.rb:3:in `rows': undefined variable `strip' for nil (NameError)",
    f"error: {'a: ' * 80}certificate has expired",
    f"error: {'a: ' * 80}self-signed certificate",
)


def key(line: str) -> str:
    return signature(Ended(Termination(exit_code=1)), line).key


@pytest.mark.parametrize("lines", SAME, ids=lambda lines: lines[0][:40])
def test_runs_of_one_failure_fall_together(lines: tuple[str, ...]) -> None:
    titles = {signature(Ended(Termination(exit_code=1)), line).title for line in lines}
    assert len(titles) == 1, titles


def test_other_failures_stay_apart() -> None:
    keys = {line: key(line) for line in (*APART, *(lines[0] for lines in SAME))}
    together = [pair for pair in combinations(keys, 2) if keys[pair[0]] == keys[pair[1]]]
    assert together == []
