// visible.h: what strangers have written, made fit to be shown.
#pragma once

// The text on one line, in UTF-8: what would steer a terminal, turn the text around or end the
// line, and bytes that are no UTF-8, as "\x1b", "\u202e". free() it.
char *visible(const char *text);
