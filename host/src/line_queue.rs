//! Lines on their way to a file or a stream: a bounded queue in front of a thread of its own, so that a reader that
//! stalls or is gone costs lines and never a request. What does not fit is dropped and counted.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines waiting to be written, of one queue.
pub(crate) const LINES_WAITING_MAX: usize = 8_192;

/// How long the end of the process waits for the lines of one queue to be written.
const FLUSH_TIME: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Write to this file from now on.
    To(File),
    /// Answer once everything before has been written.
    Flush(SyncSender<()>),
}

/// A queue of lines. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct LineQueue {
    /// `None` where the system refused a thread: lines are dropped then.
    sender: Option<SyncSender<Message>>,
    dropped: Arc<AtomicU64>,
}

impl LineQueue {
    /// Starts the thread, which writes to `sink` until it is told otherwise.
    pub(crate) fn start(thread: &str, sink: Box<dyn Write + Send>) -> Self {
        let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let write = move || write_lines(&receiver, sink, &lost);
        let thread = std::thread::Builder::new().name(thread.to_owned()).spawn(write);
        Self { sender: thread.is_ok().then_some(sender), dropped }
    }

    /// Hands over a line with its end.
    pub(crate) fn send(&self, line: Vec<u8>) {
        if !self.pass(Message::Line(line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// From the next line on, lines go into this file.
    pub(crate) fn write_to(&self, file: File) {
        // Called before there are lines, so there is room.
        self.pass(Message::To(file));
    }

    /// Lines that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was sent so far is written, a second at most.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.pass(Message::Flush(done)) {
            // Out of time, or the thread is gone: the lines are lost, and nobody is left to tell.
            let _ = written.recv_timeout(FLUSH_TIME);
        }
    }

    fn pass(&self, message: Message) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.try_send(message).is_ok())
    }
}

fn write_lines(receiver: &Receiver<Message>, mut sink: Box<dyn Write + Send>, dropped: &AtomicU64) {
    for message in receiver {
        match message {
            Message::Line(line) => {
                // Standard output keeps lines back where nobody flushes.
                if sink.write_all(&line).and_then(|()| sink.flush()).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::To(file) => sink = Box::new(file),
            // Whoever waited has given up otherwise.
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::sync::mpsc::Sender;

    use super::*;

    /// Says when it is asked to write, and takes a line when it is let.
    struct Held {
        begun: Sender<()>,
        gate: Arc<Mutex<()>>,
    }

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.begun.send(()).expect("the test listens");
            drop(self.gate.lock());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_costs_lines_and_holds_up_nobody() {
        let gate = Arc::new(Mutex::new(()));
        let (begun, begins) = std::sync::mpsc::channel();
        let shut = gate.lock().expect("nobody panics");
        let queue = LineQueue::start("test", Box::new(Held { begun, gate: Arc::clone(&gate) }));
        queue.send(b"held\n".to_vec());
        begins.recv().expect("the first line is being written");
        for _ in 0..LINES_WAITING_MAX + 5 {
            queue.send(b"line\n".to_vec());
        }
        assert_eq!(queue.dropped(), 5);
        drop(shut);
        begins.iter().take(LINES_WAITING_MAX).for_each(drop);
        assert_eq!(queue.dropped(), 5);
    }
}
