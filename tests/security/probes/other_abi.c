// Calls through the two other system call entries of x86-64: x32 numbers, and the
// 32-bit int 0x80. Prints what a child that made the call came to.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char* name, int comma, long (*call)(void)) {
  int ends[2];
  pipe(ends);
  pid_t child = fork();
  if (child == 0) {
    long result = call();
    write(ends[1], &result, sizeof result);
    _exit(0);
  }
  close(ends[1]);
  long result = 0;
  int told = read(ends[0], &result, sizeof result) == sizeof result;
  int status = 0;
  waitpid(child, &status, 0);
  if (told) printf("\"%s\": %ld", name, result);
  else printf("\"%s\": \"killed by %d\"", name, WTERMSIG(status));
  printf(comma ? ", " : "}\n");
}

static long raw(long number, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}
static long int80(long number, long a) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a) : "memory");
  return result;
}
static long x32_getpid(void) { return raw(0x40000000 | 39, 0, 0); }
static long x32_unshare(void) { return raw(0x40000000 | 272, 0x10000000, 0); }
static long x32_mount(void) { return raw(0x40000000 | 165, 0, 0); }
static long x32_ioctl(void) { return raw(0x40000000 | 514, 0, 0); }
static long i386_getpid(void) { return int80(20, 0); }
static long i386_unshare(void) { return int80(310, 0x10000000); }
static long high_bits(void) { return raw((long)(0xffffffff00000000ul | 272), 0x10000000, 0); }

int main(void) {
  printf("{");
  report("x32 getpid", 1, x32_getpid);
  report("x32 unshare", 1, x32_unshare);
  report("x32 mount", 1, x32_mount);
  report("x32 ioctl", 1, x32_ioctl);
  report("int 0x80 getpid", 1, i386_getpid);
  report("int 0x80 unshare", 1, i386_unshare);
  report("unshare with high bits", 0, high_bits);
  return 0;
}
