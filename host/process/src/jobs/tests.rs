use super::*;
use crate::sandbox::NoSandbox;
use mimir_core::command::CommandProgram;

fn owner(session: &str) -> JobOwner {
    JobOwner {
        session: session.into(),
        plugin: "p".into(),
    }
}

async fn start(jobs: &BackgroundJobs, session: &str, text: &str) -> Result<JobId, SandboxError> {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let spec = CommandSpec::new(CommandProgram::Script(text.into()), folder);
    let owner = owner(session);
    jobs.start(&NoSandbox::new(), &spec, &owner, text.into(), None)
        .await
}

async fn wait_until_ended(jobs: &BackgroundJobs, session: &str, job: JobId) -> JobStatus {
    for _ in 0..3000 {
        let status = jobs
            .list(&owner(session))
            .into_iter()
            .find(|one| one.id == job)
            .unwrap();
        if status.exit_code.is_some() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the job has not ended in time");
}

#[test]
fn output_tail_stores_the_end_and_counts_omitted_bytes() {
    let mut tail = OutputTail::new(MAX_OUTPUT);
    tail.add(b"hello ");
    tail.add(b"world");
    let chunk = read_chunk(&mut tail, 6);
    assert_eq!(
        (chunk.bytes.as_slice(), chunk.next, chunk.omitted_bytes),
        (b"world".as_slice(), 11, 0)
    );
    assert_eq!(
        read_chunk(&mut tail, 99),
        OutputChunk {
            bytes: vec![],
            next: 11,
            omitted_bytes: 0
        }
    );
    tail.add(&vec![b'x'; MAX_OUTPUT + 5]);
    tail.add(b"end");
    let chunk = read_chunk(&mut tail, 11);
    assert_eq!(chunk.next, 11 + MAX_OUTPUT as u64 + 8);
    assert_eq!(chunk.omitted_bytes, 8);
    assert!(chunk.bytes.len() == MAX_OUTPUT && chunk.bytes.ends_with(b"xend"));
}

#[tokio::test]
async fn job_output_is_read_in_chunks_until_it_exits() {
    let jobs = BackgroundJobs::default();
    let job = start(&jobs, "s", "echo one; sleep 1; echo two >&2; exit 3")
        .await
        .unwrap();
    assert_eq!(jobs.list(&owner("s"))[0].exit_code, None);
    let done = wait_until_ended(&jobs, "s", job).await;
    assert_eq!((done.exit_code, done.id), (Some(3), JobId(1)));
    let first = jobs.output(&owner("s"), job, 0).unwrap();
    assert_eq!(first.bytes, b"one\ntwo\n");
    assert_eq!(
        jobs.output(&owner("s"), job, first.next).unwrap().bytes,
        b""
    );
}

#[tokio::test]
async fn job_is_hidden_from_other_plugins_and_sessions() {
    let jobs = BackgroundJobs::default();
    let job = start(&jobs, "s", "sleep 60").await.unwrap();
    let other = JobOwner {
        plugin: "q".into(),
        ..owner("s")
    };
    for other in [other, owner("t")] {
        assert!(jobs.list(&other).is_empty());
        assert!(matches!(
            jobs.output(&other, job, 0),
            Err(SandboxError::NoJob(1))
        ));
        assert!(matches!(
            jobs.stop(&other, job).await,
            Err(SandboxError::NoJob(1))
        ));
    }
}

#[tokio::test]
async fn job_stop_runs_the_sigterm_handler_of_the_program() {
    let jobs = BackgroundJobs::default();
    let job = start(
        &jobs,
        "s",
        "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.02; done",
    )
    .await
    .unwrap();
    while jobs.output(&owner("s"), job, 0).unwrap().bytes.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stopped = jobs.stop(&owner("s"), job).await.unwrap();
    assert_eq!(stopped.exit_code, Some(5));
    // The shell may also report that the program it waited for was terminated.
    let output = jobs.output(&owner("s"), job, 0).unwrap().bytes;
    assert!(
        output.starts_with(b"up\n") && output.windows(4).any(|word| word == b"bye\n"),
        "{output:?}"
    );
    // Once more, after it has exited.
    assert_eq!(
        jobs.stop(&owner("s"), job).await.unwrap().exit_code,
        Some(5)
    );
}

#[tokio::test]
async fn jobs_are_limited_and_end_with_their_session() {
    let jobs = BackgroundJobs::default();
    for _ in 0..MAX_RUNNING {
        start(&jobs, "s", "sleep 60").await.unwrap();
    }
    assert!(matches!(
        start(&jobs, "s", "true").await,
        Err(SandboxError::TooManyJobs(MAX_RUNNING))
    ));
    let other = start(&jobs, "t", "sleep 0.3").await.unwrap();
    jobs.end_session("s");
    assert!(jobs.list(&owner("s")).is_empty());
    assert_eq!(wait_until_ended(&jobs, "t", other).await.exit_code, Some(0));
    start(&jobs, "s", "true").await.unwrap();
}

#[tokio::test]
async fn job_timeout_is_reported_in_its_output() {
    let jobs = BackgroundJobs::default();
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let mut spec = CommandSpec::new(CommandProgram::Script("echo up; sleep 60".into()), folder);
    spec.timeout = Some(Duration::from_secs(2));
    let job = jobs
        .start(&NoSandbox::new(), &spec, &owner("s"), String::new(), None)
        .await
        .unwrap();
    let done = wait_until_ended(&jobs, "s", job).await;
    assert_eq!(done.exit_code, Some(124));
    let output = jobs.output(&owner("s"), job, 0).unwrap().bytes;
    let output = String::from_utf8(output).unwrap();
    assert!(
        output.starts_with("up\n\n[it was stopped after "),
        "{output}"
    );
}
