//! Streams by file descriptor.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::StdioStreams;

/// Lowest descriptor after those of stdin, stdout and stderr.
const FIRST_FREE_FD: i32 = 3;

pub(super) fn take() -> io::Result<StdioStreams> {
    let input = fcntl_dupfd_cloexec(stdin(), FIRST_FREE_FD)?;
    let output = fcntl_dupfd_cloexec(stdout(), FIRST_FREE_FD)?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(stderr())?;
    let input_ended = Arc::new(Notify::new());
    let line = ClientLine {
        input_ended: Arc::clone(&input_ended),
        output: output.try_clone()?,
    };
    Ok(StdioStreams {
        reader: Box::new(EofNotifier {
            inner: reader(input)?,
            input_ended,
        }),
        writer: writer(output)?,
        line,
    })
}

/// Creates a reader of a descriptor. Sockets and pipes are read without a blocking thread.
fn reader(input: OwnedFd) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let file = File::from(input);
    let kind = file.metadata()?.file_type();
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    if kind.is_fifo()
        && let Some(fd) = reopened(&file, false)
        && let Ok(pipe) = pipe::Receiver::from_owned_fd(fd)
    {
        return Ok(Box::new(pipe));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

fn writer(output: OwnedFd) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let file = File::from(output);
    let kind = file.metadata()?.file_type();
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    if kind.is_fifo()
        && let Some(fd) = reopened(&file, true)
        && let Ok(pipe) = pipe::Sender::from_owned_fd(fd)
    {
        return Ok(Box::new(pipe));
    }
    Ok(Box::new(tokio::fs::File::from_std(file)))
}

/// Creates a non-blocking socket. Node connects its child processes with sockets instead of pipes.
fn socket(file: File) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Reopens a pipe, so that making it non-blocking does not affect other processes that share it.
#[cfg(target_os = "linux")]
fn reopened(file: &File, write: bool) -> Option<OwnedFd> {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let mut options = File::options();
    options.read(!write).write(write);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options.open(path).ok().map(OwnedFd::from)
}

#[cfg(not(target_os = "linux"))]
fn reopened(_: &File, _: bool) -> Option<OwnedFd> {
    None
}

/// The client's side of the connection.
pub struct ClientLine {
    input_ended: Arc<Notify>,
    output: OwnedFd,
}

/// Interval of the checks whether a silent client still reads.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl ClientLine {
    /// Completes when the client has closed its output and no longer reads, so that it needs no results. A client that
    /// has only closed its output may still wait for results.
    pub async fn hung_up(&self) {
        self.input_ended.notified().await;
        while !self.is_broken() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn is_broken(&self) -> bool {
        let mut fds = [PollFd::new(&self.output, PollFlags::empty())];
        let now = Timespec::default();
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(gone))
    }
}

/// Reader that signals the end of the input.
struct EofNotifier<R> {
    inner: R,
    input_ended: Arc<Notify>,
}

impl<R: AsyncRead + Unpin> AsyncRead for EofNotifier<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        if read.is_err() || (buf.filled().len() == before && buf.remaining() > 0) {
            self.input_ended.notify_one();
        }
        Poll::Ready(read)
    }
}
