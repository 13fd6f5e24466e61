//! A valid component with any number of functions, as bytes: parsing a million of them from text would take long.

/// A component with one tool, `big`, which returns 7, and this many functions of a few instructions each.
pub fn component(functions: u32) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // () -> i32
    section(&mut module, 1, &[1, 0x60, 0, 1, 0x7f]);
    let mut types = number(functions);
    types.resize(types.len() + functions as usize, 0);
    section(&mut module, 3, &types);
    section(&mut module, 7, b"\x01\x03big\x00\x00");
    let mut code = number(functions);
    // Repeated seven times, so that there is some code to compile.
    let mut body = vec![0, 0x41, 7];
    for _ in 0..8 {
        body.extend([0x41, 1, 0x6c]);
    }
    body.push(0x0b);
    for _ in 0..functions {
        code.extend(number(body.len() as u32));
        code.extend(&body);
    }
    section(&mut module, 10, &code);

    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    section(&mut component, 1, &module);
    // An instance of the module without imports, its export, its type, the lifted function, and its export.
    component_section(&mut component, 2, &[0, 0, 0]);
    component_section(&mut component, 6, b"\x00\x00\x01\x00\x03big");
    component_section(&mut component, 7, &[0x40, 0, 0, 0x7a]);
    component_section(&mut component, 8, &[0, 0, 0, 0, 0]);
    component_section(&mut component, 11, b"\x00\x03big\x01\x00\x00");
    component
}

/// A section with one entry.
fn component_section(to: &mut Vec<u8>, id: u8, entry: &[u8]) {
    section(to, id, &[&[1], entry].concat());
}

fn section(to: &mut Vec<u8>, id: u8, content: &[u8]) {
    to.push(id);
    to.extend(number(content.len() as u32));
    to.extend(content);
}

/// LEB128.
fn number(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
