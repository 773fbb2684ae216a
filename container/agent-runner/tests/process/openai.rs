//! The provider `openai` with a server whose model has a small context.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::bench::Bench;

/// Answers every prompt of at most `most` messages, and records all of them.
fn server(most: usize) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let prompts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&prompts);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), most, &seen);
        }
    });
    (url, prompts)
}

fn answer(mut stream: TcpStream, most: usize, seen: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let messages = serde_json::from_slice::<Value>(&body).unwrap()["messages"].clone();
    let count = messages.as_array().unwrap().len();
    seen.lock().unwrap().push(messages);
    let (status, kind, text) = if count > most {
        let error = json!({"error": {"message": "This model's maximum context length is reached", "code": "context_length_exceeded"}});
        ("400 Bad Request", "application/json", error.to_string())
    } else {
        let part = json!({"choices": [{"delta": {"content": format!("answer {count}")}, "finish_reason": "stop"}]});
        ("200 OK", "text/event-stream", format!("data: {part}\n\ndata: [DONE]\n\n"))
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).ok();
}

/// The older half of the conversation goes. The people and the model hear of it, once.
#[test]
fn people_and_agent_are_told_of_a_compaction() {
    let (url, prompts) = server(6);
    let mut bench = Bench::new("openai");
    bench.context.provider.model = Some("small".to_owned());
    bench.publish();
    let _runner = bench.start_with(|command| {
        command.env("OPENAI_BASE_URL", &url);
    });
    for seq in [2, 4, 6] {
        bench.say(seq, &format!("message {seq}"));
        assert_eq!(bench.texts(seq).len(), 1);
        assert_eq!(bench.said_at_once(), [""; 0], "nothing to tell yet");
    }
    bench.say(8, "message 8");
    assert_eq!(bench.texts(8), ["answer 4"]);
    let told = bench.said_at_once();
    assert_eq!(told, ["Context compacted: the older half of this conversation did not fit the model."]);
    let last = prompts.lock().unwrap().last().unwrap().clone();
    let prompt = last.as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(prompt.starts_with("[The older half of this conversation") && prompt.contains("recall"), "{prompt}");
    assert!(prompt.contains("message 8") && !last.to_string().contains("message 2"), "{last}");
    bench.say(10, "message 10");
    bench.texts(10);
    assert_eq!(bench.said_at_once().len(), 1, "told once");
}
