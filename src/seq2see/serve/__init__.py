"""The HTTP service: LibreTranslate's interface, our own beside it, and a page to see through it.

    socket → guards → routes → desk → service → queue → worker → translator
             headers  read and  a thread        bounded,  batches
             limits   answer    a request       fair

`service` is all of it without HTTP; `queue` and `worker` know neither models nor HTTP; `models`
knows which model leads where. `docs/serving.md` is for those who run it.
"""
