//! Resources that the commands of one session share, and those of different sessions do not.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::CommandProgram;
use mimir_process::sandbox::{CommandNetwork, CommandSession, CommandSpec, SandboxChild};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::escape::network::Site;
use crate::kit::{Said, World, run_in, sandbox, wrapped};

/// Returns the spec of a script in this session.
fn of(world: &World, session: &Arc<CommandSession>, text: &str) -> CommandSpec {
    CommandSpec {
        session: Some(Arc::clone(session)),
        ..world.script(text)
    }
}

async fn says(world: &World, session: &Arc<CommandSession>, text: &str) -> String {
    let finished = run_in(&*sandbox(), &of(world, session, text)).await;
    Said::of(finished.unwrap_or_else(|fault| panic!("{fault}\n{text}"))).out
}

/// Starts a server in a session that sends `hello` to each client. Returns once the server listens.
async fn serve(world: &World, session: &Arc<CommandSession>, address: &str) -> SandboxChild {
    let family = if address.contains(':') {
        "AF_INET6"
    } else {
        "AF_INET"
    };
    let text = format!(
        "exec python3 -c '
import socket
s = socket.socket(socket.{family}); s.bind((\"{address}\", 8123)); s.listen()
print(\"up\", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b\"hello\"); c.close()'"
    );
    let mut child = sandbox().start(&of(world, session, &text)).await.unwrap();
    let mut up = [0; 3];
    child.stdout.read_exact(&mut up).await.unwrap();
    child
}

/// Client of this server.
const ASK: &str = "python3 -c '
import socket
try:
    print(socket.create_connection((\"localhost\", 8123), 20).recv(9).decode())
except OSError as e: print(e.strerror)'";

#[tokio::test]
async fn session_server_is_reachable_by_its_own_commands_only() {
    if wrapped() {
        return;
    }
    let world = World::new();
    let (own, other) = (
        Arc::<CommandSession>::default(),
        Arc::<CommandSession>::default(),
    );
    let server = serve(&world, &own, "127.0.0.1").await;
    for _ in 0..10 {
        assert_eq!(says(&world, &own, ASK).await, "hello\n");
    }
    assert_eq!(says(&world, &other, ASK).await, "Connection refused\n");
    let said = Said::of(run_in(&*sandbox(), &world.script(ASK)).await.unwrap());
    assert_eq!(said.out, "Connection refused\n");
    drop(server);
}

#[tokio::test]
async fn session_connect_reaches_servers_of_that_session_only() {
    if wrapped() {
        return;
    }
    let world = World::new();
    // A server on the host does not belong to the session.
    let here = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    for address in ["127.0.0.1", "::1"] {
        let (own, other) = (
            Arc::<CommandSession>::default(),
            Arc::<CommandSession>::default(),
        );
        let _server = serve(&world, &own, address).await;
        let mut stream = own.connect(8123).await.unwrap();
        let _ = stream.write_all(b"x").await;
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
        assert!(own.connect(port).await.is_err());
        assert!(other.connect(8123).await.is_err());
        says(&world, &other, "true").await;
        assert!(other.connect(8123).await.is_err());
        assert!(
            tokio::net::TcpStream::connect((address, 8123))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn session_has_one_temporary_folder() {
    if wrapped() {
        return;
    }
    // In a workspace below `/var/tmp`, that folder is not a link to `/tmp`.
    let world = World::below("/tmp");
    let (own, other) = (
        Arc::<CommandSession>::default(),
        Arc::<CommandSession>::default(),
    );
    says(
        &world,
        &own,
        "echo kept > /tmp/file; echo gone > ~/file; mkdir /tmp/folder",
    )
    .await;
    for _ in 0..10 {
        let text = "cat /tmp/file /var/tmp/file; ls -d /tmp/folder; cat ~/file 2>/dev/null; echo .";
        assert_eq!(
            says(&world, &own, text).await,
            "kept\nkept\n/tmp/folder\n.\n"
        );
    }
    let none = says(&world, &other, "cat /tmp/file 2>/dev/null; echo .").await;
    assert_eq!(none, ".\n");
    assert!(!std::path::Path::new("/tmp/folder").exists());
    let size = says(&world, &own, "df --output=size -BG /tmp | tail -1").await;
    assert_eq!(size.trim(), "2G");
    // Set-user-ID programs in the folder get no additional rights.
    let text = "grep ' /tmp ' /proc/self/mountinfo | grep -o 'nosuid,nodev'";
    assert_eq!(says(&world, &own, text).await, "nosuid,nodev\n");
}

#[tokio::test]
async fn session_command_cannot_change_shared_namespaces() {
    if wrapped() {
        return;
    }
    let world = World::new();
    let session = Arc::<CommandSession>::default();
    let _server = serve(&world, &session, "127.0.0.1").await;
    for (text, said) in [
        // The processes of another command are invisible.
        ("ls /proc | grep -c '^[0-9]' | awk '{print $1 < 8}'", "1"),
        (
            "ip link set lo down 2>/dev/null; python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' && echo up",
            "up",
        ),
        (
            "umount /tmp 2>/dev/null; mount -t tmpfs x /tmp 2>/dev/null; grep -c ' /tmp ' /proc/self/mountinfo",
            "1",
        ),
        ("nsenter -t 1 -n true 2>/dev/null || echo no", "no"),
        (
            "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)' 2>/dev/null || echo no",
            "no",
        ),
    ] {
        assert_eq!(says(&world, &session, text).await.trim(), said, "{text}");
    }
}

/// Sends a request through a proxy, with credentials only if the address of the proxy has them.
const BY_PROXY: &str = "
import os, sys, urllib.error, urllib.request
def by(proxy, port):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': proxy}))
    try: return opener.open(f'http://site.test:{port}/', timeout=10).read().decode()
    except urllib.error.HTTPError as e: return f'{e.code} {e.read().decode()}'
    except OSError as e: return str(e)
";

#[tokio::test]
async fn session_proxy_requires_the_credential_of_the_command() {
    if wrapped() {
        return;
    }
    let world = World::new();
    let session = Arc::<CommandSession>::default();
    let (site, port) = (Site::new(), 61128);
    let proxied = |text: &str| CommandSpec {
        network: CommandNetwork::Proxy,
        proxy: Some(site.proxy()),
        ..of(&world, &session, text)
    };
    // The first command is running. Another command of the session has its proxy address, but no credential or a wrong
    // one.
    let mut first = sandbox()
        .start(&proxied("echo $http_proxy; exec sleep 60"))
        .await
        .unwrap();
    let mut address = Vec::new();
    while !address.ends_with(b"\n") {
        address.push(first.stdout.read_u8().await.unwrap());
    }
    let address = String::from_utf8(address).unwrap().trim().to_owned();
    let password = address.strip_prefix("http://mimir:").unwrap();
    let password = password
        .strip_suffix(&format!("@127.0.0.1:{port}"))
        .unwrap();
    assert!(password.len() > 20, "{address}");
    let tries = format!(
        "python3 - <<'END'
{BY_PROXY}
own = os.environ['http_proxy']
assert own != '{address}'
login = own.split('//')[1].split('@')[0]
for proxy in ['http://127.0.0.1:{port}', 'http://mimir:wrong@127.0.0.1:{port}', f'http://{{login}}@127.0.0.1:{port}']:
    print(by(proxy, {site})[:30])
print(by(own, {site}))
END
cat /proc/*/environ | tr '\\0' '\\n' | grep -c -- '{password}' || true",
        site = site.port
    );
    let finished = run_in(&*sandbox(), &proxied(&tries)).await.unwrap();
    let said = Said::of(finished);
    let refused = "407 mimir: PERMISSION_DENIED: \n".repeat(3);
    assert_eq!(said.out, format!("{refused}hello\n0\n"), "{said:?}");
    // No refusal was recorded, and the site received only one request.
    assert!(site.refused.lock().is_empty());
    let heard = site.heard();
    let requests: Vec<_> = heard.iter().filter(|one| *one != "ended").collect();
    assert_eq!(requests.len(), 1, "{heard:?}");
    // The proxy credential is not sent to the site.
    assert!(
        !requests[0].to_lowercase().contains("authorization"),
        "{requests:?}"
    );
}

#[tokio::test]
async fn proxy_credential_is_sent_by_usual_programs() {
    let site = Site::new();
    let port = site.port;
    for text in [
        format!("curl -sS http://site.test:{port}/"),
        format!("curl -sS --proxy-anyauth http://site.test:{port}/"),
        format!("curl -sS https://site.test:{port}/; true"),
        format!("wget -qO- http://site.test:{port}/"),
        format!("git ls-remote https://site.test:{port}/x; true"),
        format!("git ls-remote http://site.test:{port}/x; true"),
        format!(
            "python3 -m pip download --no-cache-dir --retries 0 -i https://site.test:{port}/ x; true"
        ),
        format!("npm view x --registry http://site.test:{port}/ --fetch-retries 0; true"),
    ] {
        let before = site.heard().len();
        let world = World::new();
        let spec = CommandSpec {
            network: CommandNetwork::Proxy,
            proxy: Some(site.proxy()),
            ..world.script(&text)
        };
        let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
        let program = text.split(' ').next().unwrap();
        if said.err.contains(&format!("{program}: command not found"))
            || said.err.contains("No module named pip")
        {
            continue;
        }
        assert!(site.heard().len() > before, "{text}: {said:?}");
    }
}

#[tokio::test]
async fn session_commands_can_start_concurrently() {
    let world = Arc::new(World::new());
    let session = Arc::<CommandSession>::default();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (world, session) = (Arc::clone(&world), Arc::clone(&session));
        running.spawn(
            async move { says(&world, &session, &format!("sleep 0.2; echo {number}")).await },
        );
    }
    let mut all: Vec<u32> = running
        .join_all()
        .await
        .iter()
        .map(|said| said.trim().parse().unwrap())
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn session_ends_with_its_commands() {
    let world = World::new();
    let session = Arc::<CommandSession>::default();
    let mut spec = of(&world, &session, "sleep 60");
    spec.timeout = Some(Duration::from_millis(300));
    assert!(run_in(&*sandbox(), &spec).await.is_err());
    let mut word = world.spec(CommandProgram::Vector(vec!["true".into()]));
    word.session = Some(session);
    assert_eq!(run_in(&*sandbox(), &word).await.unwrap().exit_code, 0);
}
