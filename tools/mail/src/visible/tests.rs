use super::*;

fn shown(html: &str) -> String {
    text(html).text
}

#[test]
fn what_people_see_is_read() {
    for (html, expected) in [
        ("<p>Hello  <b>Ann</b>,</p><p>two<br>lines</p>", "Hello Ann,\n\ntwo\nlines"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("yes<blockquote>asked<br>that</blockquote>", "yes\n\n> asked\n> that"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("<html><head><title>t</title></head><body>x</body></html>", "x"),
        ("<font color=red>red</font> <span style='color:#333'>dark</span>", "red dark"),
        ("<td bgcolor=black><font color=white>light on dark</font></td>", "light on dark"),
        ("<p>a<p>b", "a\n\nb"),
        ("1 &lt; 2 &amp; &uuml;", "1 < 2 & ü"),
        ("<span style='font-size:9px'>small</span>", "small"),
        ("<style>@media print{.x{color:red}} @font-face{font-family:a;src:url(b)}</style><p class=x>seen</p>", "seen"),
    ] {
        assert_eq!(shown(html), expected, "{html}");
    }
}

#[test]
fn what_people_do_not_see_is_left_out() {
    for html in [
        "<div style='display:none'>EVIL</div>",
        "<div style='DISPLAY : NONE !important'>EVIL</div>",
        "<div style='display:/* */none'>EVIL</div>",
        "<div style='d\\69splay:none'>EVIL</div>",
        "<div hidden>EVIL</div>",
        "<div style='display:none'><p><b>EVIL</p></b></div>",
        "<span style='font-size:0'>EVIL</span>",
        "<span style='font-size:1px'>EVIL</span>",
        "<span style='font:0/0 a'>EVIL</span>",
        "<span style='color:white'>EVIL</span>",
        "<span style='color:#fefefe'>EVIL</span>",
        "<span style='color:rgb(255, 255, 255)'>EVIL</span>",
        "<font color='#FFFFFF'>EVIL</font>",
        "<td style='background:#000'><span style='color:#000'>EVIL</span></td>",
        "<td bgcolor=navy><font color=#000070>EVIL</font></td>",
        "<span style='color:transparent'>EVIL</span>",
        "<span style='opacity:0'>EVIL</span>",
        "<span style='visibility:hidden'>EVIL</span>",
        "<div style='max-height:0;overflow:hidden'>EVIL</div>",
        "<div style='position:absolute;left:-9999px'>EVIL</div>",
        "<div style='text-indent:-999em'>EVIL</div>",
        "<style>.x{display:none}</style><p class='a x'>EVIL</p>",
        "<p class=x>EVIL</p><style>@media screen{p.x, .y{display:none}}</style>",
        "<style>#i{color:white}</style><p id=i>EVIL</p>",
        "<style>.a p{display:none}</style><div class=a><p>EVIL</p></div>",
        "<style>[data-x]{display:none}</style><p data-x=1>EVIL</p>",
        "<style>body *{display:none}</style><p>EVIL</p>",
        "<script>EVIL</script><template>EVIL</template><svg><text>EVIL</text></svg>",
        "<!-- EVIL --><title>EVIL</title>",
        "<input value=EVIL><img alt=EVIL><a title=EVIL></a>",
        "<p><font color=white></p>EVIL",
        "<div hidden><table></div>EVIL</table></div>",
        "<p style='display:none'>EVIL",
        "<script>EVIL",
        "<div style='display:none",
    ] {
        let found = text(&format!("{html}<p hidden></p>"));
        assert!(!found.text.contains("EVIL"), "{html}: {found:?}");
    }
    assert!(text("a<i hidden>b</i>").has_hidden && !text("<p>a<p hidden> </p>").has_hidden);
}

#[test]
fn visible_text_after_hidden_text_is_there() {
    for html in [
        "<div style='display:none'>x</div>seen",
        "<p hidden>x<p>seen",
        "<span hidden>x<b>y</span>seen",
        "<td><font color=white>x</td><td>seen</td>",
        "<div><font color=white>x</font></div><div>seen</div>",
    ] {
        assert_eq!(shown(html).trim(), "seen", "{html}");
    }
}

#[test]
fn deep_pages_end() {
    let deep = format!("a{}EVIL{}b", "<div>".repeat(100_000), "</div>".repeat(100_000));
    let found = text(&deep);
    assert!(found.has_hidden && !found.text.contains("EVIL"), "{}", found.text.len());
    let wide = "<b><i>".repeat(20_000) + &"</p><p>".repeat(20_000);
    text(&wide);
}
