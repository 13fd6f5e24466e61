//! A small web site on a local port, with responses defined by the test, which records its requests.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl ReceivedRequest {
    /// Returns the fields of a form.
    pub fn form(&self) -> HashMap<String, String> {
        let fields = url::form_urlencoded::parse(self.body.as_bytes());
        fields.into_owned().collect()
    }

    /// Returns its bearer token.
    pub fn token(&self) -> Option<&str> {
        self.headers.get("authorization")?.strip_prefix("Bearer ")
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string(),
        }
    }

    pub fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A site that exists as long as the test.
#[derive(Clone)]
pub struct Site {
    pub url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Site {
    /// Opens a site with these responses; the closure gets the site's address.
    pub async fn open<F>(answer: F) -> Self
    where
        F: Fn(&str, &ReceivedRequest) -> Answer + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let site = Self { url, requests };
        let (answer, respond_as_server) = (Arc::new(answer), site.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (site, answer) = (respond_as_server.clone(), Arc::clone(&answer));
                tokio::spawn(async move { site.serve(stream, &*answer).await });
            }
        });
        site
    }

    /// Returns the requests to paths with this prefix.
    pub fn requests_to(&self, path: &str) -> Vec<ReceivedRequest> {
        let requests = self.requests.lock();
        let matches = |one: &&ReceivedRequest| one.path.starts_with(path);
        requests.iter().filter(matches).cloned().collect()
    }

    /// Returns everything that was sent to it, as one text.
    pub fn all(&self) -> String {
        format!("{:?}", self.requests.lock())
    }

    async fn serve(
        &self,
        stream: TcpStream,
        answer: &(impl Fn(&str, &ReceivedRequest) -> Answer + Sync),
    ) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await {
            self.requests.lock().push(request.clone());
            let answer = answer(&self.url, &request);
            let mut head = format!("HTTP/1.1 {} X\r\n", answer.status);
            for (name, value) in &answer.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str(&format!("content-length: {}\r\n\r\n", answer.body.len()));
            let response = format!("{head}{}", answer.body);
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map(|length| length.parse());
    let mut body = vec![0; length.map_or(0, Result::unwrap)];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest {
        method,
        path,
        headers,
        body: String::from_utf8(body).unwrap(),
    })
}
