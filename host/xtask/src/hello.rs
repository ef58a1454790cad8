//! The greeting of `cargo xtask serve`: waits until the server has written its ports and answers that it is ready, then
//! prints its address and two commands that work. It ends when it has printed, or when the server is gone.

use std::env;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::process;

/// Looks before the greeting gives up: at 50 ms each and more, five minutes or longer.
const LOOKS_MAX: u32 = 6_000;
/// Time limit of one connect, read or write.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the greeting must know of the server.
#[derive(clap::Args, Debug)]
pub(crate) struct HelloArgs {
    /// The server's process
    #[arg(long)]
    pub(crate) pid: u32,
    /// The file that the server writes its ports to
    #[arg(long)]
    pub(crate) port_file: PathBuf,
    /// The repository that it serves
    #[arg(long)]
    pub(crate) model_repository: PathBuf,
}

/// The part of the port file that the greeting reads.
#[derive(Deserialize)]
struct Ports {
    http: u16,
}

impl HelloArgs {
    /// Runs the greeting in the background, as nobody's child: the server that this process becomes never has to
    /// collect it.
    pub(crate) fn start_beside(&self) -> Result<()> {
        match fs::remove_file(&self.port_file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", self.port_file.display()));
            }
            _ => {}
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "\"$@\" &", "sh"])
            .arg(env::current_exe()?)
            .args(["hello", "--pid", &self.pid.to_string(), "--port-file"])
            .arg(&self.port_file)
            .arg("--model-repository")
            .arg(&self.model_repository);
        ensure!(shell.status()?.success(), "sh could not start it");
        Ok(())
    }

    /// Waits and prints.
    pub(crate) fn greet(&self) {
        for _ in 0..LOOKS_MAX {
            if !is_alive(self.pid) {
                println!("\nairlock ended before it was ready; its log above says why");
                return;
            }
            if let Some(port) = self.port().filter(|&port| is_ready(port)) {
                println!("\n{}", greeting(port, &self.model_repository, &working_directory()));
                return;
            }
            process::pause();
        }
        println!("\nairlock runs but is not ready yet; /v2/health/ready answers 200 when it is");
    }

    /// `None` until the server listens: the file is absent, or not yet whole.
    fn port(&self) -> Option<u16> {
        serde_json::from_slice::<Ports>(&fs::read(&self.port_file).ok()?).ok().map(|ports| ports.http)
    }
}

/// Whether the process exists and is not a zombie.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !is_zombie(&stat))
}

/// The state is the first field after the program's name, which stands in parentheses and may hold some itself.
fn is_zombie(stat: &str) -> bool {
    stat.rsplit_once(')').is_none_or(|(_, fields)| matches!(fields.trim_start().chars().next(), None | Some('Z' | 'X')))
}

fn is_ready(port: u16) -> bool {
    probe(port).is_ok_and(|status_line| status_line.starts_with("HTTP/1.1 200"))
}

fn probe(port: u16) -> std::io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(b"GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}

fn working_directory() -> PathBuf {
    env::current_dir().unwrap_or_default()
}

/// The address and two commands that work in `directory`. The first is a prediction where the repository holds
/// `fraud_v3` with a sample, which the sample repository does.
fn greeting(port: u16, model_repository: &Path, directory: &Path) -> String {
    let address = format!("http://127.0.0.1:{port}");
    let mut lines = vec![format!("airlock serves on {address}; try:")];
    match sample_request(&model_repository.join("fraud_v3/samples")) {
        Some(body) => {
            let body = body.strip_prefix(directory).unwrap_or(&body).display();
            lines.push(format!(
                "  curl -s -X POST --data-binary '@{body}' -H 'content-type: application/json' \
                 {address}/v1/models/fraud_v3:predict"
            ));
            lines.push(format!("  curl -s {address}/v2/models/fraud_v3"));
        }
        None => {
            lines.push(format!("  curl -s {address}/v2"));
            lines.push(format!("  curl -s -i {address}/v2/health/ready"));
        }
    }
    lines.join("\n")
}

/// The JSON request of the first sample by name.
fn sample_request(samples: &Path) -> Option<PathBuf> {
    let mut bodies: Vec<_> =
        fs::read_dir(samples).ok()?.flatten().map(|case| case.path().join("request.json")).collect();
    bodies.retain(|body| body.is_file());
    bodies.sort();
    bodies.into_iter().next()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_zombie_is_dead_and_this_process_is_not() {
        assert!(is_alive(std::process::id()));
        for (stat, expected) in
            [("7 (airlock) S 1 7", false), ("7 (airlock) Z 1 7", true), ("7 (a) Z) R 1", false), ("", true)]
        {
            assert_eq!(is_zombie(stat), expected, "{stat:?}");
        }
    }

    #[test]
    fn only_200_is_ready() {
        for (answer, expected) in [("HTTP/1.1 200 OK", true), ("HTTP/1.1 503 Service Unavailable", false)] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
            let port = listener.local_addr().expect("address").port();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("accept");
                let mut request = [0; 256];
                let read = stream.read(&mut request).expect("read");
                stream.write_all(format!("{answer}\r\ncontent-length: 0\r\n\r\n").as_bytes()).expect("write");
                request[..read].starts_with(b"GET /v2/health/ready ")
            });
            assert_eq!(is_ready(port), expected, "{answer}");
            assert!(server.join().expect("no panic"));
            assert!(!is_ready(port), "nobody listens any more");
        }
    }

    #[test]
    fn the_commands_name_the_sample_where_there_is_one() {
        let folder = env::temp_dir().join(format!("xtask-hello-{}", std::process::id()));
        for case in ["b", "a", "0-no-json"] {
            fs::create_dir_all(folder.join("fraud_v3/samples").join(case)).expect("a folder");
        }
        assert!(greeting(8000, &folder, &folder).ends_with("curl -s -i http://127.0.0.1:8000/v2/health/ready"));
        for case in ["b", "a"] {
            fs::write(folder.join("fraud_v3/samples").join(case).join("request.json"), "{}").expect("write");
        }
        let text = greeting(8000, &folder, &folder);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1].trim(),
            "curl -s -X POST --data-binary '@fraud_v3/samples/a/request.json' -H 'content-type: application/json' \
             http://127.0.0.1:8000/v1/models/fraud_v3:predict"
        );
        fs::remove_dir_all(&folder).expect("remove");
    }
}
