"""The HTTP service: LibreTranslate's interface, the interface /api/v1, and a web page.

The path of a request:

    socket → middleware → routes → service → work queue → worker → translator
             headers,     read and  thread per           bounded,     batches
             limits       respond   request              fair

`service` contains everything except HTTP. `work_queue` knows neither models nor HTTP.
`model_registry` knows which models translate a language pair. `docs/serving.md` is the manual.
"""
